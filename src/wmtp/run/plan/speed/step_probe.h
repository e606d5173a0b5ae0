// Real training steps of small models, to be set beside what their operations are expected to take.
#pragma once
#include <functional>

#include "wmtp/run/plan/speed/expected_speed.h"

namespace wmtp::run {

struct StepProbe {
  SpeedRequest request;
  double step_s = 0;  // measured
};

// Two widths, and the narrow one with few tokens too: a step of few tokens shows what an operation
// costs however little it does.
struct StepProbes {
  StepProbe narrow_short, narrow, wide;
};

// On the CPU, in one process, with the threads that are set; weights are zero, which costs the
// same. `clock`: seconds. BLOCKS.
StepProbes run_step_probes(const std::function<double()>& clock);

}  // namespace wmtp::run
