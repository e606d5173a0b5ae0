#include "wmtp/tracking/sample_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/terminal_styles.h"

namespace wmtp::tracking {
namespace {

// Backgrounds of the 256-colour palette from no weight to the largest one, readable on both black
// and white screens since the text colour is set too.
constexpr std::array<int, 5> kShades{236, 238, 24, 25, 31};

struct WeightFacts {
  std::size_t num_targets = 0;
  // By head; empty: no selection.
  std::vector<std::size_t> num_selected = {}, num_selectable = {};
  double min = 0, max = 0, mean = 0;
  bool all_one = true;
};

bool is_selected(const SampleToken& token) {
  return token.selected.empty() || token.selected[0] != 0;
}

WeightFacts weigh(const std::vector<SampleToken>& tokens) {
  WeightFacts facts;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const SampleToken& token = tokens[i];
    if (!token.is_target) continue;
    facts.min = facts.num_targets == 0 ? token.weight : std::min(facts.min, token.weight);
    facts.max = facts.num_targets == 0 ? token.weight : std::max(facts.max, token.weight);
    facts.mean += token.weight;
    facts.all_one = facts.all_one && token.weight == 1;
    ++facts.num_targets;
    facts.num_selected.resize(std::max(facts.num_selected.size(), token.selected.size()));
    facts.num_selectable.resize(facts.num_selected.size());
    for (std::size_t head = 0; head < token.selected.size(); ++head) {
      if (!is_target_of_head(tokens, i, head)) continue;
      ++facts.num_selectable[head];
      facts.num_selected[head] += token.selected[head] != 0;
    }
  }
  if (facts.num_targets > 0) facts.mean /= static_cast<double>(facts.num_targets);
  return facts;
}

std::string colored(const SampleToken& token, const WeightFacts& facts) {
  std::string text;  // with real line breaks behind a mark: the text keeps its shape
  for (const char c : token.text)
    text += c == '\n' ? std::string("⏎") + kStylesOff + "\n" : visible(std::string_view(&c, 1));
  if (!token.is_target) return kDimOn + text + kStylesOff;
  const double share = facts.max > 0 ? std::clamp(token.weight / facts.max, 0.0, 1.0) : 0;
  const auto shade = static_cast<std::size_t>(std::lround(share * (kShades.size() - 1)));
  return fmt::format("\x1b[38;5;255;48;5;{}{}m{}{}", kShades[shade], is_selected(token) ? "" : ";9",
                     text, kStylesOff);
}

std::string plain(std::span<const SampleToken> tokens, const WeightFacts& facts) {
  std::string out;
  bool inside = false;
  for (const SampleToken& token : tokens) {
    if (token.is_target != inside) out += inside ? "<<" : ">>";
    inside = token.is_target;
    out += visible(token.text);
    if (token.is_target && !facts.all_one) out += fmt::format("{{{:.2f}}}", token.weight);
  }
  return inside ? out + "<<" : out;
}

std::string summed_up(const WeightFacts& facts, std::size_t num_tokens) {
  std::string line = fmt::format("{} tokens, {} targets", num_tokens, facts.num_targets);
  if (facts.num_targets == 0) return line;
  if (facts.all_one)
    line += ", every weight 1";
  else
    line +=
        fmt::format(", weights {:.3f} to {:.3f}, mean {:.3f}", facts.min, facts.max, facts.mean);
  std::vector<std::string> shares;
  for (std::size_t head = 0; head < facts.num_selected.size(); ++head)
    shares.push_back(fmt::format(
        "{:.0f}", 100.0 * static_cast<double>(facts.num_selected[head]) /
                      static_cast<double>(std::max<std::size_t>(1, facts.num_selectable[head]))));
  if (!shares.empty())
    line += fmt::format(", {} {} %", shares.size() == 1 ? "the head selects" : "the heads select",
                        fmt::join(shares, ", "));
  return line;
}

}  // namespace

std::string weights_line(const DecodedSample& sample) {
  return summed_up(weigh(sample.tokens), sample.tokens.size());
}

std::string render_sample(const DecodedSample& sample, const SampleStyle& style) {
  const std::span<const SampleToken> tokens(sample.tokens);
  const WeightFacts facts = weigh(sample.tokens);
  const auto first_target = static_cast<std::size_t>(
      std::find_if(tokens.begin(), tokens.end(), [](const SampleToken& t) { return t.is_target; }) -
      tokens.begin());
  // Where not all fits, a third is the end of the prompt and the rest what is learned from.
  std::size_t begin = 0;
  if (tokens.size() > style.max_tokens)
    begin = first_target - std::min(first_target, style.max_tokens / 3);
  begin = std::min(begin, tokens.size() - std::min(tokens.size(), style.max_tokens));
  const auto shown = tokens.subspan(begin, std::min(style.max_tokens, tokens.size() - begin));
  std::string out = begin > 0 ? "… " : "";
  if (style.color)
    for (const SampleToken& token : shown) out += colored(token, facts);
  else
    out += plain(shown, facts);
  if (begin + shown.size() < tokens.size()) out += " …";
  return out + "\n" + summed_up(facts, tokens.size()) + "\n";
}

}  // namespace wmtp::tracking
