// What `wmtp bench scaling` measures: what a link does with the collectives of a step, and steps
// over the sharding runtime beside what run::predict_step says of them.
#pragma once
#include "wmtp/bench/overlap_benchmark.h"
#include "wmtp/comm/session.h"
#include "wmtp/run/plan/predict_step.h"

namespace wmtp::bench {

// A link as collectives of the size of a unit show it. `cpu_s_per_byte` is the processor time of a
// byte on the cores of this rank, which nobody else should use meanwhile: where compute shares its
// core with the sockets, that is what a byte costs.
struct LinkFit {
  run::LinkModel link;
  double cpu_s_per_byte = 0;
};
// COLLECTIVE, BLOCKS. REQUIRES two ranks or more.
LinkFit fit_link(comm::ProcessGroupSession& group, std::int64_t unit_bytes);

struct ScalingCase {
  OverlapShape shape;
  parallel::ParallelOptions parallel;
  int rounds = 5, steps = 3;
};

// Medians over the rounds, of the slowest rank.
struct MeasuredCase {
  double compute_s = 0;  // all ranks compute, none communicates
  double step_s = 0;
};
// COLLECTIVE, BLOCKS. Both take turns, so that whatever else the machine does falls on both.
MeasuredCase measure_case(comm::ProcessGroupSession& group, const ScalingCase& scaling);

run::StepPrediction predict_case(const ScalingCase& scaling, int world, double compute_s,
                                 const run::LinkModel& link);

}  // namespace wmtp::bench
