// What a rank needs, by formula, before anything is allocated. The state and the slots are exact
// (padding included); activations are those kept per token and block; 10 % slack stands for the
// allocator. k = bytes of master and moments: 12 in fp32, 6 in bf16 (bf16_sr).
//   FULL_SHARD (k + 4) P / W + 2 c U + 2 q U + (c + q) R;  SHARD_GRAD_OP (k + 4) P / W + c P + 2 q
//   U + q R; NO_SHARD (k + 4 + c) P, without c where the master is computed with; HYBRID_SHARD as
//   FULL_SHARD with the ranks of a group for W, and two shards of U more where gradients cross to
//   the other groups in a copy (cpu_offload, bf16)
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/layout/unit_spec.h"
#include "wmtp/model/block.h"
#include "wmtp/model/lora.h"
#include "wmtp/model/model_config.h"
#include "wmtp/model/weight_names.h"
#include "wmtp/parallel/options.h"

namespace wmtp::run {

// A model beside the trained one that is only read.
struct FrozenRequest {
  model::ModelConfig model;
  std::vector<layout::UnitSpec> units;
  DType dtype = kFloat32;                  // compute
  std::optional<DType> stored_dtype = {};  // absent: as they are computed with
  bool shard = false;
  int shard_group_size = 0;  // as in FrozenModelOptions
  bool logits = true;        // of its next tokens; false: values
};

struct MemoryRequest {
  model::ModelConfig model;
  std::optional<model::LoraConfig> lora = {};
  bool frozen = false;  // the model only reads; its value head learns
  bool heads = true;    // the prediction heads are run
  std::optional<model::ValueHeadType> value_head = {};
  std::optional<FrozenRequest> other = {};
  parallel::ParallelOptions parallel;
  int world = 1;
  model::Recompute recompute = model::Recompute::none;
  std::int64_t tokens = 0;  // of a micro-batch on this rank
};

struct MemoryPlan {
  struct Row {
    std::string what;
    std::int64_t bytes = 0;
    bool on_host = false;  // cpu_offload: not the device's memory, so not in the sums below
  };
  std::vector<Row> rows;
  std::int64_t state_bytes = 0;   // masters, moments, gradients, copies, frozen weights; anywhere
  std::int64_t buffer_bytes = 0;  // gather and reduce slots
  std::int64_t other_bytes = 0;   // weights and slots of the frozen model
  std::int64_t total_bytes() const;
  std::int64_t needed_bytes() const;  // with the slack
  std::string table() const;
};

MemoryPlan plan_memory(const MemoryRequest& request);
// The model's units as they are trained: adapters, what is frozen, the value head last.
std::vector<layout::UnitSpec> planned_units(const MemoryRequest& request);

// Kept by a block for its backward, per token.
std::int64_t activation_bytes(const model::ModelConfig& config, model::Recompute level,
                              std::int64_t element_bytes);

}  // namespace wmtp::run
