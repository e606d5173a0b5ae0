#include "wmtp/tracking/report/sample_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/report/curves.h"

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

double largest_weight(Tokens tokens) {
  double largest = 0;
  for (const SampleToken& token : tokens)
    if (token.is_target && std::isfinite(token.weight)) largest = std::max(largest, token.weight);
  return largest;
}

std::string weights_html(Tokens tokens) {
  const double largest = largest_weight(tokens);
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
    double share = largest > 0 ? std::clamp(token.weight / largest, 0.0, 1.0) : 0;
    if (std::isnan(share)) share = 0;
    out += fmt::format("<span class=\"w\" style=\"--w:{:.2f}\" title=\"{}\">{}</span>", share,
                       title, token_html(token));
  }
  return out + fmt::format(
                   "</pre><p class=\"scale\">prompt dim; targets shaded from weight 0 "
                   "<span class=\"ramp\"></span> to {}</p>",
                   short_number(largest));
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

}  // namespace

std::string sample_html(const DecodedSample& sample) {
  const Tokens tokens = Tokens(sample.tokens).first(std::min(sample.tokens.size(), kMaxTokens));
  std::string out = weights_html(tokens);
  if (tokens.size() < sample.tokens.size())
    out += fmt::format("<p class=\"scale\">{} more tokens are not shown</p>",
                       sample.tokens.size() - tokens.size());
  std::size_t num_heads = 0;
  for (const SampleToken& token : tokens) num_heads = std::max(num_heads, token.selected.size());
  std::string panels;
  for (std::size_t head = 0; head < num_heads; ++head) panels += selection_html(tokens, head);
  if (const auto values = value_chart(sample))
    if (const std::string drawing = to_svg(*values); !drawing.empty())
      panels += "<figure><figcaption>Value along the sample</figcaption>" + drawing + "</figure>";
  return panels.empty() ? out : out + "<div class=\"grid texts\">" + panels + "</div>";
}

}  // namespace wmtp::tracking
