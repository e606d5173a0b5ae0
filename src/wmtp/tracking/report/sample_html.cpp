#include "wmtp/tracking/report/sample_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/report/chart.h"
#include "wmtp/tracking/report/html_parts.h"

namespace wmtp::tracking {
namespace {

constexpr std::size_t kMaxTokens = 1000;
using Tokens = std::span<const SampleToken>;

// Line breaks stay, with a mark before them: where a token ends is part of the story.
std::string token_html(const SampleToken& token) {
  std::string out;
  for (const char c : token.text) {
    if (c == '\n') out += "⏎";
    out.push_back(c);
  }
  return escape_html(out);
}

// What the shade of a target says, the same for all samples that are looked at side by side.
struct Shades {
  bool of_values = false;
  double low = 0, high = 0;

  std::optional<double> of(const SampleToken& token) const {
    if (!token.is_target) return std::nullopt;
    const std::optional<double> shown = of_values ? token.value : token.weight;
    return shown && std::isfinite(*shown) ? shown : std::nullopt;
  }
  double share(double shown) const {
    return high > low ? std::clamp((shown - low) / (high - low), 0.0, 1.0) : 0;
  }
};

bool has_values(Tokens tokens) {
  return std::any_of(tokens.begin(), tokens.end(),
                     [](const SampleToken& token) { return token.value.has_value(); });
}

// Weights that are all 1 say nothing; the values of such a stage do.
Shades shades_of(const std::vector<Tokens>& shown) {
  Shades shades{.of_values = !shown.empty() && has_values(shown.front())};
  for (const Tokens tokens : shown)
    for (const SampleToken& token : tokens)
      if (token.is_target && token.weight != 1) shades.of_values = false;
  bool first = true;
  for (const Tokens tokens : shown)
    for (const SampleToken& token : tokens)
      if (const auto value = shades.of(token)) {
        // Weights are measured from 0.
        shades.low = !shades.of_values ? 0 : first ? *value : std::min(shades.low, *value);
        shades.high = first ? *value : std::max(shades.high, *value);
        first = false;
      }
  return shades;
}

std::string tokens_html(Tokens tokens, const Shades& shades) {
  std::string out = "<pre class=\"tokens\">";
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const SampleToken& token = tokens[i];
    if (!token.is_target) {
      out += "<span class=\"p\">";
      for (; i < tokens.size() && !tokens[i].is_target; ++i) out += token_html(tokens[i]);
      --i;
      out += "</span>";
      continue;
    }
    std::string title = fmt::format("token {}: weight {}", i, short_number(token.weight));
    if (token.value) title += ", value " + short_number(*token.value);
    const auto shown = shades.of(token);
    out += fmt::format("<span class=\"w\" style=\"--w:{:.2f}\" title=\"{}\">{}</span>",
                       shown ? shades.share(*shown) : 0, title, token_html(token));
  }
  return out + "</pre>";
}

std::string scale_html(const Shades& shades) {
  return fmt::format(
      "<p class=\"scale\">prompt dim; targets shaded from {} {} <span class=\"ramp\"></span> to "
      "{}</p>\n",
      shades.of_values ? "value" : "weight", short_number(shades.low), short_number(shades.high));
}

const char* selection_class(Tokens tokens, std::size_t place, std::size_t head) {
  const SampleToken& token = tokens[place];
  if (!is_target_of_head(tokens, place, head) || head >= token.selected.size()) return "p";
  return token.selected[head] ? "s" : "u";
}

std::string selection_html(Tokens tokens, std::size_t head) {
  std::size_t num_selected = 0, num_targets = 0;
  std::string text;
  for (std::size_t i = 0; i < tokens.size();) {
    const std::string kind = selection_class(tokens, i, head);
    text += fmt::format("<{0} class=\"{1}\">", kind == "s" ? "mark" : "span", kind);
    for (; i < tokens.size() && selection_class(tokens, i, head) == kind; ++i) {
      text += token_html(tokens[i]);
      num_targets += kind != "p" ? 1 : 0;
      num_selected += kind == "s" ? 1 : 0;
    }
    text += kind == "s" ? "</mark>" : "</span>";
  }
  return fmt::format(
      "<figure><figcaption>Head {}: {} of {} targets selected</figcaption>"
      "<pre class=\"tokens\">{}</pre></figure>",
      head + 1, num_selected, num_targets, text);
}

std::string column_html(const DecodedSample& sample, Tokens tokens, const Shades& shades) {
  std::string out =
      fmt::format("<div><h4>step {}</h4>\n{}", sample.step, tokens_html(tokens, shades));
  if (tokens.size() < sample.tokens.size())
    out += fmt::format("<p class=\"scale\">{} more tokens are not shown</p>",
                       sample.tokens.size() - tokens.size());
  std::size_t num_heads = 0;
  for (const SampleToken& token : tokens) num_heads = std::max(num_heads, token.selected.size());
  for (std::size_t head = 0; head < num_heads; ++head) out += selection_html(tokens, head);
  return out + "</div>\n";
}

LineChart values_chart(const std::vector<const DecodedSample*>& samples) {
  LineChart chart{.title = "value along the sample", .x_label = "token"};
  for (const DecodedSample* sample : samples) {
    Curve curve{fmt::format("step {}", sample->step), {}, chart.curves.size()};
    for (std::size_t i = 0; i < sample->tokens.size(); ++i)
      if (const auto value = sample->tokens[i].value)
        curve.points.push_back({static_cast<std::int64_t>(i), *value});
    if (!curve.points.empty()) chart.curves.push_back(std::move(curve));
  }
  return chart;
}

std::vector<const DecodedSample*> samples_of(const SampleHistory& history) {
  if (history.last == history.first) return {history.first};
  return {history.first, history.last};
}

Tokens shown_tokens(const DecodedSample& sample) {
  return Tokens(sample.tokens).first(std::min(sample.tokens.size(), kMaxTokens));
}

std::string history_html(const SampleHistory& history, const Shades& shades) {
  const std::vector<const DecodedSample*> samples = samples_of(history);
  std::string out = "<div class=\"grid texts\">\n";
  for (const DecodedSample* sample : samples)
    out += column_html(*sample, shown_tokens(*sample), shades);
  return out + "</div>\n" + scale_html(shades) + "<div class=\"grid\">" +
         panel_html("Value along the sample", to_svg(values_chart(samples))) + "</div>\n";
}

// Whether two records are of one row: by its id, or by its text where an older run does not say.
bool is_same_row(const DecodedSample& a, const DecodedSample& b) {
  if (a.id && b.id && (a.id != b.id || a.split != b.split)) return false;
  return a.stage == b.stage &&
         std::equal(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end(),
                    [](const auto& left, const auto& right) { return left.text == right.text; });
}

std::string heading_html(const RunData& run, const DecodedSample& sample) {
  std::string out = escape_html(run.name) + ", " + escape_html(sample.stage);
  if (const std::string place = sample_place(sample); !place.empty())
    out += ": " + escape_html(place);
  if (sample.correct)
    out += fmt::format(" <span class=\"{0}\">{1} {0}</span>", *sample.correct ? "right" : "wrong",
                       *sample.correct ? "✓" : "✗");
  return "<h3>" + out + "</h3>\n";
}

}  // namespace

std::string sample_place(const DecodedSample& sample) {
  if (!sample.id || sample.split.empty()) return "";
  constexpr int kFileBits = 40;  // ids are file << 40 | row
  const std::uint64_t file = *sample.id >> kFileBits;
  const std::uint64_t row = *sample.id & ((std::uint64_t{1} << kFileBits) - 1);
  return fmt::format("sample {}{} of dataset.{}", row,
                     file == 0 ? "" : fmt::format(" of file {}", file + 1), sample.split);
}

std::vector<SampleHistory> sample_histories(const RunData& run) {
  std::vector<SampleHistory> histories;
  for (const DecodedSample& sample : run.samples) {
    if (sample.step != run.samples.front().step) break;
    const bool is_told =
        !histories.empty() && (!sample.correct || sample.correct == histories[0].first->correct);
    if (is_told || histories.size() == 2) continue;
    SampleHistory history{&sample, &sample};
    for (const DecodedSample& later : run.samples)
      if (later.step >= history.last->step && is_same_row(sample, later)) history.last = &later;
    if (history.last->step == sample.step) history.last = &sample;
    histories.push_back(history);
  }
  return histories;
}

std::string samples_html(const std::vector<RunData>& runs) {
  std::string out;
  for (const RunData& run : runs) {
    const std::vector<SampleHistory> histories = sample_histories(run);
    std::vector<Tokens> shown;
    for (const SampleHistory& history : histories)
      for (const DecodedSample* sample : samples_of(history))
        shown.push_back(shown_tokens(*sample));
    const Shades shades = shades_of(shown);
    for (const SampleHistory& history : histories)
      out += heading_html(run, *history.first) + history_html(history, shades);
  }
  return out.empty() ? "" : "<h2>Samples</h2>\n" + out;
}

}  // namespace wmtp::tracking
