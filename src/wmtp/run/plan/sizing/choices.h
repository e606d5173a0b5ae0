// A run beside the same run with one of its choices made otherwise.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "wmtp/run/plan/sizing/run_sizer.h"

namespace wmtp::run {

struct Choice {
  std::string group, name;                    // "recompute", "light"
  bool current = false;                       // as the configuration has it
  SizedRun run;                               // with its speed where it fits
  std::optional<std::int64_t> largest_batch;  // of rows in a micro-batch; absent: none fits
};

// Every recompute level, strategy, precision, recipe of float8 and way of training (full, LoRA)
// that exists on this device with these ranks, one group after the other; what the configuration's
// rules refuse is left out.
std::vector<Choice> compare_choices(RunSizer& sizer, const SizedRun& run);

// Strategies that differ with so many ranks.
std::vector<std::string> strategies_for(const RunSizer& sizer, int world);

}  // namespace wmtp::run
