// Steps replayed as CUDA graphs (runtime.cuda_graphs): what a rank computes from zeroed totals to
// the last gradient, with one launch in place of thousands. Shapes that come for the first time are
// computed plainly, the second time they are recorded, and from then on replayed: a hit. As many
// graphs as kMostGraphs are kept; the one that was needed least lately gives way, and its shape is
// a new one again. Collectives are no part of a graph: with several ranks a step is the pieces
// between them (tensor/recorded_pieces.h). Each rank replays as its own shapes come, for what the
// others see of it, the order of its collectives, is that of a plain step. What cannot be recorded
// is told once, and the run goes on plainly.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "wmtp/parallel/runtime.h"
#include "wmtp/tensor/recorded_pieces.h"
#include "wmtp/training/static_input.h"
#include "wmtp/training/totals.h"

namespace wmtp::training {

// How many steps were replayed of those that ran.
struct GraphHits {
  std::int64_t hits = 0, steps = 0;
  std::size_t num_shapes = 0, num_recorded = 0;
  double rate() const {
    return steps == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(steps);
  }
};

class StepGraphs {
 public:
  static constexpr std::size_t kMostGraphs = 8;

  // Adds a step's gradients up, and its totals to zeros. Everything that it reads of the host is in
  // the shapes of the batches, or the same in every step.
  using Compute =
      std::function<void(const StepFacts&, std::span<const DeviceBatch>, Totals& totals)>;

  // BORROWS the runtime. REQUIRES a GPU, gradients that stay where they are (no frees_grads), and
  // of several ranks steps that find nothing gathered (no gathers_early). `totals`: of the layout.
  StepGraphs(parallel::Runtime& runtime, Totals totals, Compute compute);
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  // STREAM; BLOCKS where a shape is recorded, and where a collective does. COLLECTIVE as compute
  // is. REQUIRES facts with their numbers on the device.
  Totals run(const StepFacts& facts, std::span<const DeviceBatch> batches);

  const GraphHits& hits() const { return hits_; }

 private:
  struct Graph {
    std::shared_ptr<StaticInput> input;
    std::unique_ptr<RecordedPieces> work;
    std::int64_t last_step = 0;
  };
  Graph* find_or_record(const StepFacts& facts, std::span<const DeviceBatch> batches);
  Graph record(const StepFacts& facts, std::span<const DeviceBatch> batches);
  void drop_least_recent();

  parallel::Runtime& runtime_;
  Totals totals_;  // of the step that runs; the host reads a copy
  Compute compute_;
  std::set<ShapeKey> met_;
  std::map<ShapeKey, Graph> graphs_;
  bool failed_ = false;
  GraphHits hits_;
};

}  // namespace wmtp::training
