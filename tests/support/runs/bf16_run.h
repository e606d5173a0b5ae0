// Steps of a model whose weights are computed with in bf16, on a CPU, where its ops cannot: what is
// trained draws towards numbers of each micro-batch, loss = sum (w - target)^2 / 2 over the weights
// as they are computed with, so that every step follows from how those were rounded. All else is a
// run's own: runtime, optimizer, step, checkpoints.
#pragma once
#include <optional>
#include <vector>

#include "wmtp/training/assemble.h"

namespace wmtp::test {

struct Bf16Layout {
  parallel::Strategy strategy = parallel::Strategy::full_shard;
  int shard_group_size = 1;  // of HYBRID_SHARD
  optim::Recipe recipe = optim::Recipe::fp32;
  bool lora = false;                       // else all of it is trained
  int num_micro_batches = 2;               // of a rank
  std::optional<bool> split_masters = {};  // in place of the recipe's own choice
};

// Odd extents: shards end within rows, and padding is everywhere.
model::ModelConfig bf16_config();

class DrawnWeights;

class Bf16Run {
 public:
  // Two ways to keep the weights begin with the same ones, ties of bf16 among them.
  Bf16Run(const model::ModelConfig& config, const Bf16Layout& layout,
          const parallel::Groups& groups);

  training::StepResult step();
  void skip_steps(int count) { steps_done_ += count; }  // as a resumed run does

  training::TrainableModel& model() { return model_; }
  std::vector<Tensor> masters();  // this rank's, joined, with the padding
  std::vector<Tensor> moments();

 private:
  Bf16Layout layout_;
  DrawnWeights* objective_ = nullptr;
  training::TrainableModel model_;
  int steps_done_ = 0;
};

}  // namespace wmtp::test
