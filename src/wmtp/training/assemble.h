// Puts a trainable model together: the one place where the model meets the runtime that keeps its
// weights.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wmtp/model/model_config.h"
#include "wmtp/model/transformer.h"
#include "wmtp/optim/adamw.h"
#include "wmtp/parallel/runtime.h"
#include "wmtp/training/runtime_access.h"
#include "wmtp/training/step.h"
#include "wmtp/training/value_path.h"

namespace wmtp::training {

struct AssembleOptions {
  model::ModelConfig model;
  bool frozen = false;                              // the model only reads; its value head learns
  bool quantize = false;                            // frozen projection matrices are kept in NF4
  std::optional<ValuePathOptions> value_head = {};  // a unit of its own behind the model's
  MakeObjective objective;                          // REQUIRED
  model::TransformerOptions transformer;
  parallel::ParallelOptions parallel;
  optim::ParamGroups groups;
  optim::AdamWSettings adamw;  // its recipe decides parts of `parallel` (parallel_of)
  StepOptions step;            // so does what it says of graphs
  std::optional<optim::LossScaleSettings> loss_scale = {};  // absent: fp16 has the usual one
};

// How the runtime keeps such a model: `parallel` with the masters' dtype and the cuts of the
// recipe, and what steps that are replayed need.
parallel::ParallelOptions parallel_of(const AssembleOptions& options);

// OWNS everything a step works on.
class TrainableModel {
 public:
  // BORROWS the groups. Weights are zero until filled.
  TrainableModel(const AssembleOptions& options, const parallel::Groups& groups);
  ~TrainableModel();

  parallel::Runtime& runtime() { return runtime_; }
  model::Transformer& transformer() { return *transformer_; }
  model::Transformer& reader() { return *reader_; }  // the same weights, without gradients
  optim::AdamW& optimizer() {
    runtime_.settle();  // its state is about to be looked at
    return *optimizer_;
  }
  ValuePath* read_value() { return read_value_.get(); }  // null: no value head
  Objective& objective() { return *objective_; }
  Step& step() { return *step_; }
  optim::LossScale* loss_scale() { return loss_scale_.get(); }  // null: none
  const Tensor& inv_freq() const { return inv_freq_F_; }  // of the model's RoPE, on the device
  // Of model and value head: what batches to learn from are uploaded with.
  std::span<const std::string> dropout_sites() const { return dropout_sites_; }

 private:
  parallel::Runtime runtime_;
  RuntimeAccess access_;
  std::unique_ptr<model::Transformer> transformer_, reader_;
  std::unique_ptr<ValuePath> value_, read_value_;
  std::unique_ptr<optim::AdamW> optimizer_;
  std::unique_ptr<optim::LossScale> loss_scale_;
  std::unique_ptr<Objective> objective_;
  std::unique_ptr<Step> step_;
  Tensor inv_freq_F_;
  std::vector<std::string> dropout_sites_;
};

// The units of the model and of its value head, as the runtime keeps them.
std::vector<layout::UnitSpec> trainable_units(const AssembleOptions& options);

}  // namespace wmtp::training
