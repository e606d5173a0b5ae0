// The memory plan of a run upon NF4 as GPUs compute it, in bf16: byte for byte what is allocated.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "wmtp/comm/groups.h"
#include "wmtp/model/presets.h"
#include "wmtp/parallel/quantized_shard.h"
#include "wmtp/run/plan/memory_plan.h"
#include "wmtp/training/assemble.h"
#include "wmtp/training/objectives/baseline.h"

namespace wmtp::run {
namespace {

const std::vector<std::string> kAllMatrices{"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                            "gate_proj", "up_proj", "down_proj"};

training::AssembleOptions upon_nf4(const model::ModelConfig& config, std::int64_t rank) {
  training::AssembleOptions options;
  options.model = config;
  options.objective = training::make_baseline;
  options.transformer.lora = model::LoraConfig{.rank = rank, .targets = kAllMatrices};
  options.quantize = true;
  options.parallel.param_dtype = kBFloat16;
  options.parallel.frozen_dtype = kBFloat16;
  options.groups.groups = {{.name = "policy", .learning_rate = 1e-3, .weight_decay = 0}};
  return options;
}

MemoryRequest request_of(const training::AssembleOptions& options) {
  MemoryRequest request;
  request.model = options.model;
  request.lora = options.transformer.lora;
  request.quantize = options.quantize;
  request.parallel = training::parallel_of(options);
  request.recipe = options.adamw.recipe;
  return request;
}

std::int64_t row(const MemoryPlan& plan, const std::string& what) {
  for (const MemoryPlan::Row& one : plan.rows)
    if (one.what == what) return one.bytes;
  return -1;
}

TEST(Nf4Memory, EveryByteIsPlanned) {
  for (const auto strategy : {parallel::Strategy::no_shard, parallel::Strategy::shard_grad_op,
                              parallel::Strategy::full_shard}) {
    SCOPED_TRACE(name_of(strategy));
    training::AssembleOptions options = upon_nf4(model::preset("small"), 16);
    options.parallel.strategy = strategy;
    const auto group = comm::make_single("all", c10::Device(c10::kCPU));
    training::TrainableModel model(options, {group.get(), group.get()});
    const MemoryPlan plan = plan_memory(request_of(options));
    EXPECT_EQ(plan.state_bytes, model.runtime().state_bytes() + model.optimizer().state_bytes());
    EXPECT_EQ(plan.buffer_bytes, model.runtime().buffer_bytes());
    std::int64_t frozen = 0;
    for (const parallel::UnitState& state : model.runtime().states())
      frozen += state.quantized          ? state.quantized->bytes()
                : state.frozen.defined() ? static_cast<std::int64_t>(state.frozen.nbytes())
                                         : 0;
    EXPECT_EQ(row(plan, "frozen weights (matrices in NF4)"), frozen);
  }
}

// Matrices in 4 bits, the root in bf16, two units in bf16 to compute with: llama-2-7b on a GPU.
TEST(Nf4Memory, OfTheSevenBIsAQuarterAndTwoUnits) {
  MemoryRequest request = request_of(upon_nf4(model::preset("llama-2-7b"), 64));
  request.parallel.device = c10::Device(c10::kCUDA, 0);
  const MemoryPlan plan = plan_memory(request);
  const std::int64_t unit = 4 * 4096 * 4096 + 3 * 4096 * 11008, norms = 2 * 4096;
  const std::int64_t root = 2 * 32000 * 4096 + 4096;
  EXPECT_EQ(row(plan, "frozen weights (matrices in NF4)"),
            32 * (unit / 2 + unit / 64 + unit / 16384 * 4 + 2 * norms) + 2 * root);
  const std::int64_t adapters = 64 * (4 * (4096 + 4096) + 3 * (4096 + 11008));
  EXPECT_EQ(row(plan, "gather slots (2 units) and root"), 2 * 2 * (unit + norms + adapters));
}

// From host memory a matrix comes to the slot in its 4 bits.
TEST(Nf4Memory, OffloadedMatricesTravelOneByOne) {
  training::AssembleOptions options = upon_nf4(model::preset("llama-2-7b"), 64);
  options.parallel.device = c10::Device(c10::kCUDA, 0);
  options.parallel.cpu_offload = true;
  const std::int64_t largest = 4096 * 11008;
  const MemoryPlan plan = plan_memory(request_of(options));
  EXPECT_EQ(row(plan, "a matrix in NF4 on its way to a slot"),
            largest / 2 + largest / 64 + largest / 16384 * 4);
  options.parallel.cpu_offload = false;
  EXPECT_EQ(row(plan_memory(request_of(options)), "a matrix in NF4 on its way to a slot"), -1);
}

}  // namespace
}  // namespace wmtp::run
