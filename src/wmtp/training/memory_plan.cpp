#include "wmtp/training/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/layout/shard_plan.h"
#include "wmtp/model/weight_names.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::training {
namespace {

constexpr double kSlack = 1.10;
constexpr std::int64_t kLogitsChunkBytes = std::int64_t{512} << 20;

std::vector<layout::UnitSpec> units_of(const MemoryRequest& request) {
  return request.lora ? model::lora_units(request.model, *request.lora)
                      : model::model_units(request.model);
}

// The sizes every formula is made of, in elements.
struct Sizes {
  std::int64_t trained_shard = 0, trained_whole = 0, frozen_shard = 0;
  std::int64_t largest_trained = 0, largest_frozen = 0;  // of units that share slots
  std::int64_t kept_trained = 0, kept_frozen = 0;        // of units gathered for the whole step
};

Sizes measure(const MemoryRequest& request) {
  const bool sharded = request.parallel.strategy != parallel::Strategy::no_shard;
  const bool full = request.parallel.strategy == parallel::Strategy::full_shard;
  const auto trained = layout::shard_plan(units_of(request), sharded ? request.world : 1);
  const auto frozen = layout::shard_plan(units_of(request), full ? request.world : 1);
  Sizes sizes;
  for (std::size_t u = 0; u < trained.size(); ++u) {
    const std::int64_t t = trained[u].trained.padded_numel(), f = frozen[u].frozen.padded_numel();
    sizes.trained_shard += trained[u].trained.shard_numel();
    sizes.trained_whole += t;
    sizes.frozen_shard += frozen[u].frozen.shard_numel();
    if (trained[u].kept) {
      sizes.kept_trained += t;
      sizes.kept_frozen += f;
    } else {
      sizes.largest_trained = std::max(sizes.largest_trained, t);
      sizes.largest_frozen = std::max(sizes.largest_frozen, f);
    }
  }
  return sizes;
}

void add_state(const MemoryRequest& request, const Sizes& sizes, MemoryPlan& plan) {
  const auto c = static_cast<std::int64_t>(element_bytes(request.parallel.param_dtype));
  const bool copy = request.parallel.strategy == parallel::Strategy::no_shard &&
                    request.parallel.param_dtype != request.parallel.master_dtype;
  plan.rows.push_back({"master weights and two moments (fp32)", 12 * sizes.trained_shard});
  plan.rows.push_back({"gradients (fp32)", 4 * sizes.trained_shard});
  if (copy) plan.rows.push_back({"weights to compute with", c * sizes.trained_shard});
  if (sizes.frozen_shard > 0) plan.rows.push_back({"frozen weights", c * sizes.frozen_shard});
  for (const auto& row : plan.rows) plan.state_bytes += row.bytes;
}

void add_buffers(const MemoryRequest& request, const Sizes& sizes, MemoryPlan& plan) {
  const auto& options = request.parallel;
  if (options.strategy == parallel::Strategy::no_shard) return;
  const auto c = static_cast<std::int64_t>(element_bytes(options.param_dtype));
  const auto q = static_cast<std::int64_t>(element_bytes(options.reduce_dtype));
  const bool alone = request.world == 1, full = options.strategy == parallel::Strategy::full_shard;
  const std::int64_t slots = 1 + std::max({1, options.prefetch_forward, options.prefetch_backward});
  std::int64_t gather = 0, reduce = 0;
  if (!alone || options.param_dtype != options.master_dtype) {
    const std::int64_t frozen_kept = full && !alone ? sizes.kept_frozen : 0;
    const std::int64_t frozen_slot = full && !alone ? sizes.largest_frozen : 0;
    gather =
        full
            ? c * (slots * (sizes.largest_trained + frozen_slot) + sizes.kept_trained + frozen_kept)
            : c * sizes.trained_whole;
  }
  if (!alone) reduce = q * (2 * sizes.largest_trained + sizes.kept_trained);
  plan.rows.push_back(
      {full ? fmt::format("gather slots ({} units) and root", slots) : "gathered weights", gather});
  plan.rows.push_back({"reduce slots (2 units) and root", reduce});
  plan.buffer_bytes = gather + reduce;
}

void add_activations(const MemoryRequest& request, MemoryPlan& plan) {
  const auto& m = request.model;
  const auto c = static_cast<std::int64_t>(element_bytes(request.parallel.param_dtype));
  const std::int64_t kept = activation_bytes(m, request.recompute, c) * m.num_trunk_blocks();
  const std::int64_t one = activation_bytes(m, model::Recompute::none, c);
  // A block's backward: gradients of its widest intermediate beside the block's own activations.
  const std::int64_t working =
      one + c * (3 * m.dim + 3 * m.ffn_dim + 2 * (m.num_heads + 2 * m.num_kv_heads) * m.head_dim);
  plan.rows.push_back({"activations kept by the trunk", request.tokens * kept});
  plan.rows.push_back({"one block at work", request.tokens * working});
  plan.rows.push_back(
      {"one chunk of logits", std::min(kLogitsChunkBytes, request.tokens * m.vocab_size * c)});
}

}  // namespace

std::int64_t activation_bytes(const model::ModelConfig& m, model::Recompute level, std::int64_t c) {
  if (level == model::Recompute::block) return c * m.dim;
  const std::int64_t q = m.num_heads * m.head_dim, kv = m.num_kv_heads * m.head_dim;
  std::int64_t bytes = c * (2 * m.dim + 2 * q + 2 * kv + 2 * m.ffn_dim) + 4 * m.num_heads + 8;
  if (m.qk_norm) bytes += c * (q + kv);
  if (level == model::Recompute::none) bytes += c * (2 * m.dim + m.ffn_dim);
  return bytes;
}

std::int64_t MemoryPlan::total_bytes() const {
  std::int64_t sum = 0;
  for (const Row& row : rows) sum += row.bytes;
  return sum;
}

std::int64_t MemoryPlan::needed_bytes() const {
  return static_cast<std::int64_t>(static_cast<double>(total_bytes()) * kSlack);
}

std::string MemoryPlan::table() const {
  std::string text;
  auto line = [&text](std::string_view what, std::int64_t bytes) {
    text += fmt::format("  {:<40}{:>10.2f} GiB\n", what, static_cast<double>(bytes) / (1 << 30));
  };
  for (const Row& row : rows) line(row.what, row.bytes);
  line("together", total_bytes());
  line("with 10 % for the allocator", needed_bytes());
  return text;
}

MemoryPlan plan_memory(const MemoryRequest& request) {
  const Sizes sizes = measure(request);
  MemoryPlan plan;
  add_state(request, sizes, plan);
  add_buffers(request, sizes, plan);
  add_activations(request, plan);
  return plan;
}

model::Recompute choose_recompute(MemoryRequest request, std::int64_t limit_bytes) {
  for (model::Recompute level :
       {model::Recompute::none, model::Recompute::light, model::Recompute::block}) {
    request.recompute = level;
    if (plan_memory(request).needed_bytes() <= limit_bytes) return level;
  }
  require_fit(request, limit_bytes);
  return model::Recompute::block;
}

void require_fit(const MemoryRequest& request, std::int64_t limit_bytes) {
  const MemoryPlan plan = plan_memory(request);
  if (plan.needed_bytes() <= limit_bytes) return;
  throw Error(
      ErrorKind::config, "memory",
      fmt::format("a rank needs {:.1f} GiB, {:.1f} GiB are there:\n{}",
                  static_cast<double>(plan.needed_bytes()) / (1 << 30),
                  static_cast<double>(limit_bytes) / (1 << 30), plan.table()),
      "use more ranks with FULL_SHARD, a smaller training.batch_size or dataset.max_length, "
      "fsdp.activation_checkpointing: block, or training.use_lora");
}

}  // namespace wmtp::training
