// One decoded training sample with what the objective makes of each token, as text for people.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace wmtp::tracking {

struct SampleToken {
  std::string text = {};             // decoded; a character of several tokens stands with the first
  bool is_target = false;            // some head learns from predicting it
  double weight = 0;                 // of that prediction (head 1); 0 where it is no target
  std::optional<double> value = {};  // the value model's estimate here
  std::vector<std::uint8_t> selected = {};  // per head, 0 or 1; empty: this stage selects nothing
};

// Whether head `head`, from 0, predicts the token at `place`. It reads the token head + 1 places
// before, which the first ones do not have.
inline bool is_target_of_head(std::span<const SampleToken> tokens, std::size_t place,
                              std::size_t head) {
  return tokens[place].is_target && place > head;
}

struct DecodedSample {
  std::int64_t step = 0;
  std::string stage = {};
  std::vector<SampleToken> tokens = {};
  // Where it comes from: "train" or "validation", and the id that messages name it by. A run shows
  // the same samples each time. Runs of older versions do not say.
  std::string split = {};
  std::optional<std::uint64_t> id = {};
  std::optional<bool> correct = {};  // as its row says; nothing: it does not
};

struct SampleStyle {
  bool color = false;
  std::size_t max_tokens = 240;  // shown; the middle of the prompt and the end are left out first
};

// In colour: the prompt dim, targets shaded by weight, those left out by head 1 struck through.
// Plain: one line, `prompt >>token{weight}token{weight}<<`, without the braces where all weights
// are 1. The last line sums up the weights.
std::string render_sample(const DecodedSample& sample, const SampleStyle& style);
// That line, without line feed: "9 tokens, 4 targets, weights 0.100 to 0.900, mean 0.450".
std::string weights_line(const DecodedSample& sample);

}  // namespace wmtp::tracking
