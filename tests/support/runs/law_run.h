// A short training run on random batches, for tests that compare layouts: the same samples whatever
// the world size.
#pragma once
#include <optional>
#include <vector>

#include "wmtp/model/presets.h"
#include "wmtp/models/synthetic_batch.h"
#include "wmtp/training/assemble.h"

namespace wmtp::test {

inline constexpr double kLawLearningRate = 1e-3;

struct LawLayout {
  parallel::Strategy strategy = parallel::Strategy::full_shard;
  int shard_group_size = 1;  // of HYBRID_SHARD
  model::Recompute recompute = model::Recompute::none;
  int num_micro_batches = 3;  // of the whole step, over all ranks
  bool no_sync = false;
  int prefetch = 1;
  optim::Recipe recipe = optim::Recipe::fp32;
  std::optional<optim::LossScaleSettings> loss_scale = {};
  std::optional<model::LoraConfig> lora = {};  // adapters begin at random values, B too
  bool quantize = false;                       // the base under adapters is in NF4
  std::uint64_t seed = 0;                      // of weights, samples and rounding
  kernels::Float8Recipe float8 = kernels::Float8Recipe::off;
  bool only_first = false;  // the other micro-batches have no target: nothing is added up
};

// Half the ranks, where that makes groups of two or more: the groups of HYBRID_SHARD in tests.
inline int half_of(int world) {
  return world >= 4 && world % 2 == 0 ? world / 2 : 1;
}
// With the communicators of groups of half_of() the ranks. COLLECTIVE at the first call.
parallel::Groups groups_of_test(comm::ProcessGroupSession& session);

class LawRun {
 public:
  LawRun(const model::ModelConfig& config, const LawLayout& layout, const parallel::Groups& groups);

  // One optimizer step; micro-batch j of rank r is the (j * world + r)-th of the step. The last one
  // of several has no target at all.
  training::StepResult step();
  // Goes on where `other`, of the same layout, is: with what a checkpoint holds of it.
  void resume(LawRun& other);

  training::TrainableModel& model() { return model_; }
  // This rank's part of unit u's trained parameters without padding, and where it begins in the
  // unit.
  struct Part {
    Tensor values;
    std::int64_t begin = 0;
  };
  Part master(std::size_t unit);
  Part grad(std::size_t unit);
  Tensor frozen(std::size_t unit);  // what this rank keeps of the frozen ones; undefined: none
  std::size_t num_units() { return model_.runtime().states().size(); }

 private:
  Part part(std::size_t unit, const Tensor& shard);

  model::ModelConfig config_;
  LawLayout layout_;
  parallel::Groups groups_;
  training::TrainableModel model_;
  int steps_done_ = 0;
};

std::vector<Tensor> masters(LawRun& run);  // copies of this rank's parts, by unit
bool equal(const std::vector<Tensor>& a, const std::vector<Tensor>& b);  // to the last bit

}  // namespace wmtp::test
