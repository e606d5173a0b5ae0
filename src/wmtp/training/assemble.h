// Puts a trainable model together: the one place where the model meets the runtime that keeps its
// weights.
#pragma once
#include <memory>
#include <optional>

#include "wmtp/model/model_config.h"
#include "wmtp/model/transformer.h"
#include "wmtp/optim/adamw.h"
#include "wmtp/parallel/runtime.h"
#include "wmtp/training/step.h"

namespace wmtp::training {

struct AssembleOptions {
  model::ModelConfig model;
  model::TransformerOptions transformer;
  parallel::ParallelOptions parallel;
  optim::ParamGroups groups;
  optim::AdamWSettings adamw;  // its recipe sets parallel.master_dtype
  StepOptions step;
  std::optional<optim::LossScaleSettings> loss_scale = {};  // absent: fp16 has the usual one
};

// OWNS everything a step works on.
class TrainableModel {
 public:
  // BORROWS the groups. Weights are zero until filled.
  TrainableModel(const AssembleOptions& options, const parallel::Groups& groups);
  ~TrainableModel();

  parallel::Runtime& runtime() { return runtime_; }
  model::Transformer& transformer() { return *transformer_; }
  optim::AdamW& optimizer() { return *optimizer_; }
  Step& step() { return *step_; }
  optim::LossScale* loss_scale() { return loss_scale_.get(); }  // null: none
  const Tensor& inv_freq() const { return inv_freq_F_; }  // of the model's RoPE, on the device

 private:
  class Binding;
  parallel::Runtime runtime_;
  std::unique_ptr<Binding> binding_;
  std::unique_ptr<model::Transformer> transformer_;
  std::unique_ptr<optim::AdamW> optimizer_;
  std::unique_ptr<optim::LossScale> loss_scale_;
  std::unique_ptr<Step> step_;
  Tensor inv_freq_F_;
};

// Weights from scratch, the same for every world size.
parallel::Fill random_weights(const model::ModelConfig& config, std::uint64_t seed);

}  // namespace wmtp::training
