#include "wmtp/training/step_graphs.h"

#include <algorithm>
#include <utility>

#include "wmtp/core/error.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/core/log.h"
#include "wmtp/tensor/profile_scope.h"

// What a graph may name, and where it lies. Weights, their copies to compute with, gradients, and
// the slots into which several ranks gather and reduce stand for the whole run. Batches and numbers
// lie in copies that the graph owns (StaticInput) and that are filled before each replay. Totals
// lie in one vector of all graphs, and leave it behind each replay, because the host reads them a
// step late. Everything else is taken from the graphs' own memory while they are recorded, and is
// dead when a replay ends.
//
// Updates of the step before run on a stream of their own, and a graph cannot wait for what was
// recorded outside of it, so the current stream waits for all of them first. It does so before
// plain steps too: whichever way a step goes, the host's notes on what is pending are the same
// behind it. Its notes on gradients (parallel/reducer.h) are those of the last plain or recorded
// step, and begin_step() forgets them. So are its notes on what is gathered: a step begins with
// nothing gathered, which a validation in between may have changed, and all that it gathers is
// waited for within it, as a graph cannot wait for a collective of another step.
//
// Nothing of a recording is done, collectives neither: a rank whose step cannot be recorded
// computes it plainly, and the others see no difference.

namespace wmtp::training {

StepGraphs::StepGraphs(parallel::Runtime& runtime, Totals totals, Compute compute)
    : runtime_(runtime), totals_(std::move(totals)), compute_(std::move(compute)) {
  const parallel::ParallelOptions& options = runtime.options();
  WMTP_CHECK(options.device.is_cuda() && !options.frees_grads &&
                 (!options.gathers_early || runtime.buffer_bytes() == 0),
             "a step is recorded whose weights or gradients do not stand");
}

Totals StepGraphs::run(const StepFacts& facts, std::span<const DeviceBatch> batches) {
  ++hits_.steps;
  runtime_.settle();
  runtime_.forget_gathered();
  const bool replays = failpoint::pass("step.graph") != failpoint::Action::skip;
  Graph* const graph = replays ? find_or_record(facts, batches) : nullptr;
  if (graph) {
    const ProfileScope scope("graph");
    graph->last_step = hits_.steps;
    graph->input->copy(facts, batches);
    graph->work->replay();
  } else {
    totals_.zero();
    compute_(facts, batches, totals_);
  }
  return totals_.copy();
}

StepGraphs::Graph* StepGraphs::find_or_record(const StepFacts& facts,
                                              std::span<const DeviceBatch> batches) {
  if (failed_) return nullptr;
  ShapeKey key = shape_key(batches);
  if (const auto found = graphs_.find(key); found != graphs_.end()) {
    ++hits_.hits;
    return &found->second;
  }
  if (met_.insert(key).second) {
    hits_.num_shapes = std::max(hits_.num_shapes, met_.size());
    return nullptr;
  }
  try {
    Graph graph = record(facts, batches);
    if (graphs_.size() == kMostGraphs) drop_least_recent();
    ++hits_.num_recorded;
    return &graphs_.emplace(std::move(key), std::move(graph)).first->second;
  } catch (const std::exception& error) {
    log::warn("train", "runtime.cuda_graphs: the step cannot be recorded and runs plainly: {}",
              error.what());
    failed_ = true;
    graphs_.clear();
    runtime_.forget_gathered();  // what the recording would have
    return nullptr;
  }
}

StepGraphs::Graph StepGraphs::record(const StepFacts& facts, std::span<const DeviceBatch> batches) {
  Graph graph;
  graph.input = std::make_shared<StaticInput>(facts, batches);
  graph.work = std::make_unique<RecordedPieces>([this, input = graph.input] {
    totals_.zero();
    compute_(input->facts(), input->batches(), totals_);
  });
  return graph;
}

// Its shape counts as new: recording costs more than a plain step, and of more shapes than there
// are graphs, each by turns, none would ever be replayed.
void StepGraphs::drop_least_recent() {
  const auto least = std::ranges::min_element(
      graphs_, {}, [](const auto& entry) { return entry.second.last_step; });
  met_.erase(least->first);
  graphs_.erase(least);
}

}  // namespace wmtp::training
