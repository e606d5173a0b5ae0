// The modules that a file has adapters of, put as a LoraConfig puts them.
#pragma once
#include <string_view>
#include <vector>

#include "wmtp/layout/unit_spec.h"
#include "wmtp/model/lora.h"

namespace wmtp::models {

// Which kinds of blocks adapted modules lie in.
class AdaptedBlocks {
 public:
  explicit AdaptedBlocks(const model::ModelConfig& config);

  // "model.layers.3.self_attn.q_proj"; false: it lies in no block of the model.
  bool add(std::string_view module);
  bool any() const { return trunk_ || heads_; }
  model::LoraScope scope() const;  // of a model with one head: both

 private:
  std::size_t num_trunk_blocks_;
  bool has_extra_heads_;
  std::vector<layout::UnitSpec> units_;
  bool trunk_ = false, heads_ = false;
};

// `lora` has its scope and, in `modules`, each adapted projection by name: sets the targets and,
// where all modules are alike, rank and alpha. `modules` stays only where the rest cannot say it.
// REQUIRES a module.
void settle_targets(model::LoraConfig& lora, const model::ModelConfig& config);

}  // namespace wmtp::models
