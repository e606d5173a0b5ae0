// What a rank needs, by formula, before anything is allocated: the most of all moments of a step.
// State and slots are exact (padding included) and stay all along; what comes and goes is counted
// moment by moment as the model allocates it (memory_moments.h), every token having a target. 10 %
// slack stands for the allocator. k = bytes of master and moments: 12 in fp32, 8 with bf16 moments,
// 6 in bf16 (bf16_sr), 4.03 with 8-bit moments (int8).
//   FULL_SHARD (k + 4) P / W + 2 c U + 2 q U + (c + q) R;  SHARD_GRAD_OP (k + 4) P / W + c P + 2 q
//   U + q R; NO_SHARD (k + 4 + c) P, without c where the master or its upper plane is computed
//   with; HYBRID_SHARD as
//   FULL_SHARD with the ranks of a group for W, and two shards of U more where gradients cross to
//   the other groups in a copy (cpu_offload, bf16)
// The 4 of the gradients come and go on a GPU where a step is one micro-batch (frees_grads), and
// stand everywhere else, so that accumulation adds its micro-batches and nothing else. Graphs have
// a batch each, and together memory for what comes and goes in a step, beside that of the steps
// that are run plainly. Not in it:
// the copy of a save, which is taken only where there is room for it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/layout/unit_spec.h"
#include "wmtp/model/lora.h"
#include "wmtp/model/model_config.h"
#include "wmtp/model/weight_names.h"
#include "wmtp/optim/recipe.h"
#include "wmtp/parallel/options.h"
#include "wmtp/run/plan/block_memory.h"

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
  bool frozen = false;    // the model only reads; its value head learns
  bool quantize = false;  // frozen projection matrices are kept in NF4
  kernels::Float8Recipe float8 = kernels::Float8Recipe::off;
  bool heads = true;  // the prediction heads are run
  std::optional<model::ValueHeadType> value_head = {};
  std::optional<FrozenRequest> other = {};
  parallel::ParallelOptions parallel;  // as training::parallel_of has it
  optim::Recipe recipe = optim::Recipe::fp32;
  int world = 1;
  model::Recompute recompute = model::Recompute::none;
  std::int64_t tokens = 0;              // of a micro-batch on this rank
  std::int64_t micro_batches = 1;       // of a step
  std::int64_t loss_chunk_rows = 0;     // as TransformerOptions has it
  bool packed_cudnn = false;            // attention over documents is cuDNN's
  std::int64_t stored_score_bytes = 0;  // what that stores to be reproducible
  int num_graphs = 0;                   // steps are replayed, by so many graphs at most

  // The CPU computes in fp32 only: a plan in fewer bits is one of a GPU.
  bool on_gpu() const { return !parallel.device.is_cpu() || parallel.param_dtype != kFloat32; }
};

struct MemoryPlan {
  struct Row {
    std::string what;
    std::int64_t bytes = 0;
    bool on_host = false;  // cpu_offload: not the device's memory, so not in the sums below
  };
  // A part of a step and all that is alive in it, at that part's most.
  struct Moment {
    std::string name;
    std::vector<Row> rows;
    std::int64_t bytes() const;  // without what is in host memory
  };
  std::vector<Moment> moments;    // in the order of a step
  std::string peak;               // the moment that needs most
  std::vector<Row> rows;          // its rows
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

}  // namespace wmtp::run
