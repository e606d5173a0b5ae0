#include "wmtp/cli/pages/token_views.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/tracking/escaped_text.h"

namespace wmtp::cli::pages {
namespace {

using Kind = TokenView::Kind;

// Red for losses, blue for weights, green for values; the report's own blue stays for the weights.
const char* light_color(Kind kind) {
  return kind == Kind::nll ? "213,94,0" : kind == Kind::weight ? "0,114,178" : "0,158,115";
}
const char* dark_color(Kind kind) {
  return kind == Kind::nll ? "240,138,60" : kind == Kind::weight ? "86,180,233" : "47,199,156";
}

const char* scale_note(Kind kind) {
  if (kind == Kind::nll) return "; at least 98 % of all targets are between; the prompt is dim";
  return kind == Kind::weight ? "; the prompt is dim" : "; every token has one";
}

TokenView nll_view(std::size_t head, const ScoredRows::Range& range) {
  return {Kind::nll,
          head,
          fmt::format("nll-{}", head + 1),
          fmt::format("loss of head {}", head + 1),
          range.low,
          range.high};
}

TokenView weight_view(std::size_t head, bool differ, double high) {
  return {Kind::weight,
          head,
          differ ? fmt::format("weight-{}", head + 1) : "weight",
          differ ? fmt::format("weight by head {}", head + 1) : "weight",
          0,
          high};
}

}  // namespace

std::optional<float> TokenView::number(const PageRow& row, std::size_t token) const {
  if (kind == Kind::value) return row.value.empty() ? std::nullopt : row.value[token];
  const auto& numbers = kind == Kind::nll ? row.nll : row.weight;
  return head < numbers.size() ? numbers[head][token] : std::nullopt;
}

double TokenView::shade(float number) const {
  return high > low ? std::clamp((static_cast<double>(number) - low) / (high - low), 0.0, 1.0) : 0;
}

std::vector<TokenView> token_views(const ScoredRows& rows) {
  std::vector<TokenView> views;
  for (std::size_t head = 0; head < rows.heads().size(); ++head)
    views.push_back(nll_view(head, rows.common_nll()));
  if (const auto weights = rows.weights()) {
    const bool differ = rows.weights_differ_by_head();
    for (std::size_t head = 0; head < (differ ? rows.heads().size() : 1); ++head)
      views.push_back(weight_view(head, differ, weights->high));
  }
  if (const auto values = rows.values())
    views.push_back({Kind::value, 0, "value", "value", values->low, values->high});
  return views;
}

std::string choice_html(const std::vector<TokenView>& views) {
  std::string buttons, labels, scales;
  for (const TokenView& view : views) {
    buttons += fmt::format("<input type=\"radio\" name=\"view\" id=\"{}\"{}/>", view.id,
                           &view == views.data() ? " checked=\"checked\"" : "");
    labels += fmt::format("<label for=\"{}\">{}</label>", view.id, view.label);
    scales += fmt::format("<p class=\"scale {}\">{}: {} <span class=\"ramp\"></span> {}{}</p>",
                          view.id, view.label, tracking::short_number(view.low),
                          tracking::short_number(view.high), scale_note(view.kind));
  }
  return buttons + "<div class=\"chips views\"><span>colour</span>" + labels + "</div>" + scales;
}

std::string choice_style(const std::vector<TokenView>& views) {
  std::string out, dark;
  for (const TokenView& view : views) {
    const auto rule = [&view](std::string_view selector, std::string_view body) {
      return fmt::format("#{}:checked~{}{{{}}}", view.id, selector, body);
    };
    out +=
        rule(".rows .w", fmt::format("--w:var(--{},0)", view.id)) +
        rule(fmt::format(".scale.{}", view.id), "display:block") +
        rule(fmt::format(".views label[for={}]", view.id), "background:var(--fg);color:var(--bg)") +
        rule("*", fmt::format("--hl:{}", light_color(view.kind)));
    dark += rule("*", fmt::format("--hl:{}", dark_color(view.kind)));
  }
  return out + "@media(prefers-color-scheme:dark){" + dark + "}";
}

}  // namespace wmtp::cli::pages
