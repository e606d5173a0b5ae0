// All combinations of values for some keys, each sized as `train` would plan it.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/run/plan/sizing/run_sizer.h"

namespace wmtp::run {

struct SweepAxis {
  std::string name;  // as it was asked for: "recompute"
  std::string key;   // "distributed.fsdp.activation_checkpointing"; empty: the number of ranks
  std::vector<std::string> values;
};

// "batch_size=1,2,4": a short name of sweep_names(), or any key of a configuration. Commas within
// brackets separate nothing. Error config for anything else, with the nearest name.
SweepAxis parse_axis(std::string_view text);
std::vector<std::string> sweep_names();

struct SweptRun {
  std::vector<std::string> values;  // of the axes, in their order
  std::optional<SizedRun> run;      // absent: refused
  std::string refused;              // what the configuration's rules have against it, in one line

  bool fits() const { return run && run->fits(); }
};

// Error config for more than 4,096 combinations, or where all of them are refused. What fits comes
// first, the fastest of them at the head; then what does not fit, the smallest first; then what is
// refused. Speeds are those of what fits.
std::vector<SweptRun> sweep(RunSizer& sizer, const Candidate& base,
                            const std::vector<SweepAxis>& axes);

}  // namespace wmtp::run
