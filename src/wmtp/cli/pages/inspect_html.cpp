#include <fmt/format.h>

#include "wmtp/cli/pages/bars.h"
#include "wmtp/cli/pages/curriculum_html.h"
#include "wmtp/cli/pages/inspect_page.h"
#include "wmtp/cli/pages/page.h"
#include "wmtp/tracking/escaped_text.h"

namespace wmtp::cli::pages {
namespace {

constexpr const char *kTarget = "f0", *kPrompt = "half", *kPadding = "none", *kLost = "f1";

std::string computed_html(const data::DataOutlook& outlook) {
  return share_bar({{"targets", outlook.num_targets, kTarget},
                    {"prompt", outlook.num_prompt(), kPrompt},
                    {"padding", outlook.num_padding(), kPadding}}) +
         fmt::format(
             "<p class=\"note\">{} tokens in {} micro-batches, the largest of {}; the run has {} "
             "steps of {} samples. All of it is computed; only targets teach.</p>",
             outlook.laid_out().num_tokens, outlook.laid_out().num_batches,
             outlook.laid_out().largest, outlook.num_steps, outlook.shape.samples_per_step());
}

std::string lengths_html(const data::LengthStats& lengths) {
  ColumnChart chart{"lengths of the sequences of epoch 0", "tokens", {"sequences"}, {}, false};
  for (std::size_t i = 0; i < lengths.histogram.size(); ++i) {
    const auto low = static_cast<double>(i * (lengths.max + 1) / lengths.histogram.size());
    const auto high = static_cast<double>((i + 1) * (lengths.max + 1) / lengths.histogram.size());
    chart.columns.push_back(
        {low, high, {lengths.histogram[i]}, fmt::format("from {:.0f} tokens", low)});
  }
  return to_svg(chart) + fmt::format(
                             "<ul class=\"legend\"><li>p50 <b>{}</b></li><li>p90 <b>{}</b></li>"
                             "<li>p99 <b>{}</b></li><li>max <b>{}</b></li></ul>",
                             lengths.p50, lengths.p90, lengths.p99, lengths.max);
}

std::string batches_html(const data::DataOutlook& outlook) {
  const auto bar = [&outlook](const char* name, const data::LaidOut& laid_out) {
    return fmt::format("<h3>{}</h3>", name) +
           share_bar({{"tokens of sequences", outlook.num_tokens, kTarget},
                      {"padding", laid_out.num_tokens - outlook.num_tokens, kPadding}});
  };
  const std::uint64_t packed = outlook.batches.packed.num_tokens,
                      padded = outlook.batches.padded.num_tokens;
  return bar("padded to rows", outlook.batches.padded) + bar("packed", outlook.batches.packed) +
         fmt::format(
             "<p class=\"note\">Packing computes {} tokens less in an epoch ({:.1f} %); "
             "dataset.packing is {}.</p>",
             padded > packed ? padded - packed : 0,
             padded > packed
                 ? 100.0 * static_cast<double>(padded - packed) / static_cast<double>(padded)
                 : 0.0,
             outlook.packing);
}

std::string truncation_html(const data::DataSummary& summary, const data::DataOutlook* outlook) {
  const data::CorpusCounters& c = summary.counters;
  const std::uint64_t cut = c.truncated_rows[0] + c.truncated_rows[1];
  std::vector<Share> shares{{"whole", c.num_candidates - std::min(cut, c.num_candidates), kTarget},
                            {"cut", cut, kLost}};
  if (c.num_dropped_long > 0) shares.push_back({"dropped as too long", c.num_dropped_long, "f7"});
  if (c.num_without_target > 0) shares.push_back({"without a target", c.num_without_target, "f4"});
  std::string out =
      "<h3>Rows that are cut</h3>" + share_bar(shares) +
      fmt::format("<p class=\"note\">{} tokens are lost: {} of correct and {} of incorrect rows.",
                  c.truncated_tokens[0] + c.truncated_tokens[1], c.truncated_tokens[1],
                  c.truncated_tokens[0]);
  if (outlook)
    out += fmt::format(" dataset.max_length is {}, dataset.truncate {}.", outlook->max_length,
                       config::name_of(outlook->truncate));
  return out + "</p>";
}

std::string classes_html(const data::DataSummary& summary, const data::DataOutlook* outlook) {
  const std::uint64_t unlabelled = summary.counters.num_without_reward;
  std::string out = unlabelled >= summary.counters.num_candidates
                        ? ""
                        : "<h3>Classes of the drawn sequences</h3>" +
                              share_bar({{"correct", summary.num_correct, "f2"},
                                         {"incorrect", summary.num_incorrect, "f1"}});
  if (unlabelled > 0)
    out += fmt::format("<p class=\"note\">{} rows have no label.</p>", unlabelled);
  if (!outlook || !outlook->repeated) return out;
  return out + "<h3>Repeated rows</h3>" +
         share_bar({{"for the first time",
                     outlook->repeated->num_rows - outlook->repeated->num_repeated, kTarget},
                    {"as an earlier one", outlook->repeated->num_repeated, kLost}}) +
         (outlook->first_repeated.empty() ? ""
                                          : fmt::format("<p class=\"note\">The first: {}</p>",
                                                        page_text(outlook->first_repeated)));
}

std::string rows_panel(const data::DataSummary& summary, const data::DataOutlook* outlook) {
  return truncation_html(summary, outlook) + classes_html(summary, outlook);
}

std::string figures_html(const InspectPage& page) {
  if (!page.summary) return "";
  const data::DataSummary& summary = *page.summary;
  const data::DataOutlook* outlook = page.outlook ? &*page.outlook : nullptr;
  std::string out;
  if (outlook) out += section("What an epoch computes", computed_html(*outlook));
  std::string panels = panel("Lengths", lengths_html(summary.lengths));
  if (outlook) panels += panel("Padding and packing", batches_html(*outlook));
  if (summary.format != "text") panels += panel("Rows", rows_panel(summary, outlook));
  out += section("The data", grid(panels));
  if (outlook) out += section("Difficulty over time", curriculum_html(*outlook));
  return out + details("All figures", list_html(figure_lines(page)));
}

std::string tokens_html(const ShownSequence& sequence) {
  std::string out = "<pre class=\"tokens\">";
  for (std::uint32_t i = 0; i < sequence.ids.size(); ++i) {
    const bool target = i >= sequence.first_target();
    out += fmt::format("<span class=\"e {}\" title=\"{}: id {}{}\">{}</span>", target ? "t" : "p",
                       i, sequence.ids[i], target ? ", target of " + heads_of_target(i) : "",
                       token_text(sequence.pieces[i]));
  }
  if (sequence.num_padding > 0)
    out += fmt::format("<span class=\"pad\">{} padding</span>", sequence.num_padding);
  return out + "</pre>";
}

std::string marks_html(const ShownSequence& sequence) {
  std::vector<std::vector<std::string>> rows;
  for (std::uint32_t i = 0; i < sequence.ids.size(); ++i)
    rows.push_back({std::to_string(i), std::to_string(sequence.ids[i]),
                    i < sequence.first_target() ? "" : heads_of_target(i),
                    tracking::visible(sequence.pieces[i])});
  return "<div class=\"targets\">" + table_html({"place", "id", "target of", "text"}, rows) +
         "</div>";
}

std::string sequence_html(const ShownSequence& sequence, bool per_token) {
  return fmt::format("<div class=\"sample\"><h3>{}</h3>{}{}</div>\n", page_text(sequence.title),
                     tokens_html(sequence),
                     per_token ? details("Token by token", marks_html(sequence)) : "");
}

constexpr const char* kTokenLegend =
    "<ul class=\"legend tokens\"><li><span class=\"p\">prompt</span></li>"
    "<li><span class=\"t\">target</span></li><li><span class=\"pad\">padding</span></li>"
    "<li>a fine line ends each token; ⏎ is a line break</li></ul>\n";

// The sequences of a micro-batch stand together.
std::string sequences_html(const InspectPage& page) {
  if (page.sequences.empty()) return "";
  std::string out = kTokenLegend + std::string("<div class=\"samples\">"), batch;
  for (const ShownSequence& sequence : page.sequences) {
    if (sequence.batch != batch)
      out += fmt::format("</div><p class=\"micro\"><b>{}</b></p>\n<div class=\"samples\">",
                         page_text(sequence.batch));
    batch = sequence.batch;
    out += sequence_html(sequence, page.per_token);
  }
  return out + "</div>\n";
}

}  // namespace

std::string to_html(const InspectPage& page) {
  std::string body = figures_html(page);
  if (!page.lines.empty()) body += section("Notes", list_html(page.lines));
  body += section("Sequences", sequences_html(page));
  return whole_page(page.heading.empty() ? "data" : page.heading, body);
}

}  // namespace wmtp::cli::pages
