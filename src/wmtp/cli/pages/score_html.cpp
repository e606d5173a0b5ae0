#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "wmtp/cli/pages/bars.h"
#include "wmtp/cli/pages/page.h"
#include "wmtp/cli/pages/score_page.h"
#include "wmtp/cli/pages/token_views.h"
#include "wmtp/tokenizer/stream_decoder.h"
#include "wmtp/tracking/escaped_text.h"

namespace wmtp::cli::pages {
namespace {

using tracking::short_number;

constexpr std::size_t kMaxTokens = 1000;

// The buttons themselves are out of sight; their labels are what one sees and presses.
constexpr const char* kScoreStyle =
    ".choice>input{position:absolute;opacity:0;pointer-events:none}"
    ".chips{display:flex;flex-wrap:wrap;gap:.4em;align-items:center;margin:.4em 0}"
    ".chips label{border:1px solid var(--line);border-radius:1em;padding:.1em .8em;cursor:pointer}"
    ".chips span{color:var(--dim);min-width:4em}.choice>.scale{display:none}"
    ".choice>input:focus-visible~.chips{outline:2px solid var(--c0);outline-offset:2px}"
    "#by-file:checked~.rows>.sample{order:var(--file)}"
    "#by-loss:checked~.chips label[for=by-loss],#by-file:checked~.chips label[for=by-file]"
    "{background:var(--fg);color:var(--bg)}";

std::string head_table(const ScoredRows& rows) {
  std::vector<std::vector<std::string>> cells;
  for (std::size_t head = 0; head < rows.heads().size(); ++head) {
    const ScoredRows::Head& sums = rows.heads()[head];
    std::vector<std::string> row{std::to_string(head + 1), std::to_string(sums.num_targets), "",
                                 ""};
    if (sums.num_targets > 0) {
      const double mean = sums.nll_sum / static_cast<double>(sums.num_targets);
      row[2] = short_number(mean), row[3] = short_number(std::exp(mean));
    }
    cells.push_back(std::move(row));
  }
  return cells.empty() ? "" : table_html({"head", "targets", "mean nll", "perplexity"}, cells);
}

// The bins that any head has something in, so that all drawings have one axis: [first, past).
std::pair<std::size_t, std::size_t> common_bins(const ScoredRows& rows) {
  std::pair<std::size_t, std::size_t> bins{~std::size_t{0}, 0};
  for (const ScoredRows::Head& head : rows.heads())
    for (std::size_t bin = 0; bin < head.histogram.size(); ++bin)
      if (head.histogram[bin] > 0)
        bins = {std::min(bins.first, bin), std::max(bins.second, bin + 1)};
  return bins;
}

std::string histograms_html(const ScoredRows& rows) {
  const auto [first, past] = common_bins(rows);
  std::string panels;
  for (std::size_t head = 0; head < rows.heads().size(); ++head) {
    const std::string title = fmt::format("Losses of head {}", head + 1);
    ColumnChart chart{title, "nll of a target", {"targets"}, {}, false};
    for (std::size_t bin = first; bin < past; ++bin) {
      const double low = static_cast<double>(bin) * ScoredRows::kBinWidth;
      const std::string text = low >= ScoredRows::kTop
                                   ? fmt::format("from {}", low)
                                   : fmt::format("{} to {}", low, low + ScoredRows::kBinWidth);
      chart.columns.push_back(
          {low, low + ScoredRows::kBinWidth, {rows.heads()[head].histogram[bin]}, text});
    }
    panels += panel(title, to_svg(chart));
  }
  return panels;
}

// The text of each token; ids where there is no tokenizer, or one with fewer tokens than the model.
std::vector<std::string> pieces_of(const PageRow& row, const tokenizer::Tokenizer* tokenizer) {
  const bool known = tokenizer && std::ranges::all_of(row.ids, [tokenizer](std::int32_t id) {
                       return id < tokenizer->vocab_size();
                     });
  if (known) return tokenizer::token_texts(*tokenizer, row.ids);
  std::vector<std::string> pieces;
  for (const std::int32_t id : row.ids) pieces.push_back(fmt::format("{} ", id));
  return pieces;
}

std::string token_html(const PageRow& row, std::size_t token, const std::string& piece,
                       const std::vector<TokenView>& views) {
  std::string style, title = fmt::format("{}: id {}", token, row.ids[token]);
  for (const TokenView& view : views) {
    const auto number = view.number(row, token);
    if (!number) continue;
    style += fmt::format("{}--{}:{:.2f}", style.empty() ? "" : ";", view.id, view.shade(*number));
    title += fmt::format(", {} {}", view.label, short_number(static_cast<double>(*number)));
  }
  const bool is_target = !row.nll.empty() && row.nll.front()[token];
  const std::string shade = style.empty() ? "" : fmt::format(" style=\"{}\"", style);
  return fmt::format("<span class=\"e{}{}\"{} title=\"{}\">{}</span>", style.empty() ? "" : " w",
                     is_target || row.nll.empty() ? "" : " p", shade, title, token_text(piece));
}

std::string row_title(const PageRow& row) {
  std::string title = fmt::format("row {}", row.row);
  if (row.part > 0) title += fmt::format(", part {}", row.part);
  if (row.micro_batch)
    title += fmt::format(", micro-batch {} of rank {}", *row.micro_batch + 1, row.rank.value_or(0));
  title += fmt::format(": {} tokens", row.ids.size());
  if (row.num_targets > 0)
    title += fmt::format(", targets {}, mean nll {}, perplexity {}", row.num_targets,
                         short_number(row.nll_mean), short_number(std::exp(row.nll_mean)));
  return title;
}

std::string row_html(const PageRow& row, const std::vector<TokenView>& views,
                     const tokenizer::Tokenizer* tokenizer) {
  const std::vector<std::string> pieces = pieces_of(row, tokenizer);
  const std::size_t shown = std::min(pieces.size(), kMaxTokens);
  std::string out = fmt::format(
      "<div class=\"sample\" style=\"--file:{}\"><h3>{}</h3>"
      "<pre class=\"tokens\">",
      row.order, row_title(row));
  for (std::size_t i = 0; i < shown; ++i) out += token_html(row, i, pieces[i], views);
  out += "</pre>";
  if (shown < pieces.size())
    out +=
        fmt::format("<p class=\"scale\">{} more tokens are not shown</p>", pieces.size() - shown);
  return out + "</div>\n";
}

std::string which_rows(std::size_t num_shown, std::uint64_t num_rows, bool by_loss) {
  if (num_shown == num_rows) return fmt::format("All {} rows stand here.", num_rows);
  return fmt::format("{} of {} rows stand here, {}; {} are left out (--html-rows).", num_shown,
                     num_rows,
                     by_loss ? "those with the highest mean nll of head 1" : "the first ones",
                     num_rows - num_shown);
}

std::string rows_html(const ScorePage& page, const ScoredRows& rows,
                      const std::vector<TokenView>& views) {
  const std::vector<const PageRow*> shown = rows.shown();
  const bool by_loss = !rows.heads().empty();
  std::string out = fmt::format("<p class=\"note\">{}</p>\n<div class=\"choice\">",
                                which_rows(shown.size(), rows.num_rows(), by_loss));
  out += choice_html(views);
  if (by_loss)
    out +=
        "<input type=\"radio\" name=\"order\" id=\"by-loss\" checked=\"checked\"/>"
        "<input type=\"radio\" name=\"order\" id=\"by-file\"/>"
        "<div class=\"chips\"><span>order</span><label for=\"by-loss\">highest loss first</label>"
        "<label for=\"by-file\">as in the file</label></div>";
  out += "<div class=\"rows samples\">";
  for (const PageRow* row : shown) out += row_html(*row, views, page.tokenizer);
  return out + "</div></div>\n";
}

}  // namespace

std::string to_html(const ScorePage& page, const ScoredRows& rows) {
  const std::vector<TokenView> views = token_views(rows);
  std::string body = "<ul class=\"legend\">";
  for (const auto& [name, fact] : page.facts)
    body += fmt::format("<li>{} <b>{}</b></li>", page_text(name), page_text(fact));
  body += "</ul>\n" +
          section("Losses", grid(panel("Heads", head_table(rows)) + histograms_html(rows))) +
          section("Rows", rows_html(page, rows, views));
  return whole_page(page.title, body, kScoreStyle + choice_style(views));
}

}  // namespace wmtp::cli::pages
