#include "wmtp/tracking/tensorboard/markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "wmtp/tracking/escaped_text.h"

namespace wmtp::tracking::tensorboard {
namespace {

constexpr std::size_t kMaxShownTokens = 1000;

std::string valid_html(std::string_view text) {
  return escape_html(valid_utf8(text));
}

std::string target_html(const SampleToken& token, bool with_weight) {
  const bool left_out = !token.selected.empty() && token.selected[0] == 0;
  std::string out =
      fmt::format("<{0}>{1}</{0}>", left_out ? "em" : "strong", valid_html(token.text));
  if (with_weight) out += fmt::format("{{{:.2f}}}", token.weight);
  if (token.value) out += fmt::format("[{:.2f}]", *token.value);
  return out;
}

}  // namespace

std::string sample_markdown(const DecodedSample& sample) {
  const auto tokens =
      std::span(sample.tokens).first(std::min(sample.tokens.size(), kMaxShownTokens));
  const bool with_weights = std::any_of(tokens.begin(), tokens.end(), [](const SampleToken& token) {
    return token.is_target && token.weight != 1;
  });
  std::string text = "<pre>";
  for (const SampleToken& token : tokens)
    text += token.is_target ? target_html(token, with_weights) : valid_html(token.text);
  text += "</pre>\n\n<p>";
  if (tokens.size() < sample.tokens.size())
    text += fmt::format("{} more tokens are not shown. ", sample.tokens.size() - tokens.size());
  return text + fmt::format(
                    "Stage {}: {}. Bold: targets; italics: targets that head 1 leaves out; "
                    "{{weight}}; [value].</p>\n",
                    valid_html(sample.stage), valid_html(weights_line(sample)));
}

std::string table_markdown(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string text = "<table>\n";
  for (const auto& [name, value] : rows)
    text += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", valid_html(name), valid_html(value));
  return text + "</table>\n";
}

}  // namespace wmtp::tracking::tensorboard
