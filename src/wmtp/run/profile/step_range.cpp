#include "wmtp/run/profile/step_range.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "wmtp/core/error.h"

namespace wmtp::run {
namespace {

std::optional<std::int64_t> parse_step(std::string_view digits) {
  std::int64_t step = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, step);
  if (error != std::errc() || stopped != end || digits.front() == '-') return std::nullopt;
  return step;
}

}  // namespace

StepRange step_range(std::string_view text, std::string_view flag) {
  const auto refuse = [&](std::string_view why) {
    return Error(ErrorKind::config, "train", fmt::format("{} {}: {}", flag, text, why),
                 "give a step, as 3, or the first and the last, as 10-12");
  };
  const std::size_t dash = text.find('-');
  const auto first = parse_step(text.substr(0, dash));
  const auto last = dash == text.npos ? first : parse_step(text.substr(dash + 1));
  if (!first || !last) throw refuse("expected a whole number, or two with a dash between them");
  if (*first < 1) throw refuse("steps are counted from 1");
  if (*last < *first) throw refuse(fmt::format("{} comes before {}", *last, *first));
  return {*first, *last};
}

std::string name_of(const StepRange& steps) {
  return steps.first == steps.last ? fmt::format("step {}", steps.first)
                                   : fmt::format("steps {} to {}", steps.first, steps.last);
}

}  // namespace wmtp::run
