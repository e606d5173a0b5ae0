// Whether a run's steps can be replayed as CUDA graphs (runtime.cuda_graphs, bench step
// --cuda-graphs).
#pragma once
#include <string_view>

#include "wmtp/config/runtime.h"
#include "wmtp/training/assemble.h"

namespace wmtp::run {

// auto is off.
bool wants_cuda_graphs(const config::Runtime& runtime);

struct GraphedRun {
  const training::AssembleOptions& assemble;
  int world = 1;
  bool selects_over_ranks = false;  // rho1 with the scope of all ranks
};
// Where the steps ask for graphs: error config that begins with `key` for the first thing in the
// run that no graph can hold: CPUs, gradients that several ranks sum in fewer bits than they are
// kept in, selections over several ranks, masters in host memory, numbers that change from step to
// step on the host (loss scale), weights that are made anew by the host's word (float8, NF4, frozen
// ones in another dtype than is computed with). A value or reference model of its own may be kept
// in any way: its signals are computed in front of the graph.
void check_cuda_graphs(std::string_view key, const GraphedRun& run);
// Says of them what nobody has seen yet.
void tell_cuda_graphs(const training::StepOptions& step);

}  // namespace wmtp::run
