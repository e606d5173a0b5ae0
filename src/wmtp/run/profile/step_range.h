// Which optimizer steps a profile is taken of.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace wmtp::run {

struct StepRange {
  std::int64_t first = 1, last = 1;  // both in it; counted from 1, as the log counts

  bool contains(std::int64_t step) const { return first <= step && step <= last; }
  bool operator==(const StepRange&) const = default;
};

// Of "3" or "10-12". Error config for anything else; `flag` is named in it.
StepRange step_range(std::string_view text, std::string_view flag);
std::string name_of(const StepRange& steps);  // "step 3", "steps 10 to 12"

}  // namespace wmtp::run
