// What to change where a run does not fit.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "wmtp/run/plan/sizing/run_sizer.h"

namespace wmtp::run {

// One change by itself.
struct FitChange {
  std::vector<std::string> overrides;  // key.path=value
  std::int64_t needed_bytes = 0;       // with it
  bool fits = false;
  bool changes_result = false;  // the run learns something else: LoRA, shorter rows, precision
};

struct FitAdvice {
  std::vector<FitChange> changes;  // those that save something
  // The least of them that fit together, in the order of the list; empty: they do not suffice.
  std::vector<std::string> overrides;
  std::int64_t needed_bytes = 0;  // with those; 0 without
  std::optional<int> world;       // ranks that make it fit, with `world_overrides`
  std::vector<std::string> world_overrides;
};

// REQUIRES a run that does not fit. What leaves the result of the run alone is preferred. What the
// configuration's rules refuse is not proposed, and what is proposed was planned: it fits.
FitAdvice advise(RunSizer& sizer, const SizedRun& run);

}  // namespace wmtp::run
