#include "wmtp/run/plan/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/layout/shard_plan.h"
#include "wmtp/model/weight_names.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::run {
namespace {

constexpr double kSlack = 1.10;
constexpr std::int64_t kLogitsChunkBytes = std::int64_t{512} << 20;
constexpr std::int64_t kCpuLogitsChunkBytes = std::int64_t{64} << 20;

// The parts every formula is made of, in bytes: what UnitState, Gatherer and Reducer allocate.
struct Sizes {
  std::int64_t masters = 0, grads = 0, copies = 0, frozen = 0;
  std::int64_t kept_gathers = 0, gather_slot = 0;  // kept for the step; the largest that shares
  std::int64_t kept_reductions = 0, reduce_slot = 0;
  std::int64_t crossing = 0;  // the largest copy of a shard on its way to the other groups
};

std::int64_t bytes_of_params(std::int64_t numel, DType dtype) {
  return numel * static_cast<std::int64_t>(element_bytes(dtype));
}

// How the runtime keeps one unit.
struct UnitRules {
  DType master, compute, wire, frozen;
  bool copied = false, aliased = false;  // the optimizer keeps a copy; the master is computed with
};

UnitRules rules_of(const parallel::ParallelOptions& options, const layout::UnitPlan& unit) {
  UnitRules rules{options.master_dtype, options.param_dtype, options.reduce_dtype,
                  options.frozen_dtype.value_or(options.param_dtype)};
  if (unit.full_precision) rules.master = rules.compute = rules.wire = rules.frozen = kFloat32;
  const bool same = rules.master == rules.compute;
  const bool whole = unit.trained.padded_numel() == unit.trained.shard_numel();
  rules.copied = options.strategy == parallel::Strategy::no_shard && !same && !options.offloads();
  rules.aliased = whole && same && !options.offloads();
  return rules;
}

void add_gather(const parallel::ParallelOptions& options, const layout::UnitPlan& unit,
                const UnitRules& rules, Sizes& sizes) {
  const layout::BucketPlan &trained = unit.trained, &frozen = unit.frozen;
  const bool gathers_frozen =
      !frozen.empty() && (frozen.padded_numel() > frozen.shard_numel() || options.offloads() ||
                          rules.frozen != rules.compute);
  if ((trained.empty() || rules.aliased || rules.copied) && !gathers_frozen) return;
  const std::int64_t numel =
      (rules.copied ? 0 : trained.padded_numel()) + (gathers_frozen ? frozen.padded_numel() : 0);
  const std::int64_t bytes = bytes_of_params(numel, rules.compute);
  if (unit.kept || (options.strategy == parallel::Strategy::shard_grad_op && !gathers_frozen))
    sizes.kept_gathers += bytes;
  else
    sizes.gather_slot = std::max(sizes.gather_slot, bytes);
}

void add_reduction(const parallel::ParallelOptions& options, const layout::UnitPlan& unit,
                   const UnitRules& rules, Sizes& sizes) {
  const std::int64_t bytes = bytes_of_params(unit.trained.padded_numel(), rules.wire);
  if (unit.kept || unit.full_precision || options.no_sync)
    sizes.kept_reductions += bytes;
  else
    sizes.reduce_slot = std::max(sizes.reduce_slot, bytes);
}

Sizes measure(const std::vector<layout::UnitSpec>& units, const parallel::ParallelOptions& options,
              int world) {
  const parallel::Placement place = parallel::placement_of(options, /*rank=*/0, world);
  const bool unsharded = place.shard_world == 1;
  const auto trained = layout::shard_plan(units, place.shard_world);
  const auto frozen = layout::shard_plan(units, options.shards_frozen() ? place.shard_world : 1);
  Sizes sizes;
  for (std::size_t u = 0; u < trained.size(); ++u) {
    layout::UnitPlan unit = trained[u];
    unit.frozen = frozen[u].frozen;
    const UnitRules rules = rules_of(options, unit);
    const std::int64_t shard = unit.trained.shard_numel();
    sizes.masters += 3 * bytes_of_params(shard, rules.master);
    sizes.grads += bytes_of_params(shard, kFloat32);
    if (rules.copied) sizes.copies += bytes_of_params(shard, rules.compute);
    sizes.frozen += bytes_of_params(unit.frozen.shard_numel(), rules.frozen);
    add_gather(options, unit, rules, sizes);
    if (!unsharded || options.offloads()) add_reduction(options, unit, rules, sizes);
    const bool crosses = !unsharded && place.num_replicas() > 1;
    if (crosses && (options.offloads() || rules.wire != kFloat32))
      sizes.crossing = std::max(sizes.crossing, bytes_of_params(shard, rules.wire));
  }
  return sizes;
}

void add_state(const MemoryRequest& request, const Sizes& sizes, MemoryPlan& plan) {
  const bool on_host = request.parallel.offloads();
  auto add = [&](std::string what, std::int64_t bytes) {
    if (bytes > 0) plan.rows.push_back({std::move(what), bytes, on_host});
    plan.state_bytes += bytes;
  };
  add(fmt::format("master weights and two moments ({})",
                  wmtp::name_of(request.parallel.master_dtype)),
      sizes.masters);
  add("gradients (fp32)", sizes.grads);
  add("weights to compute with", sizes.copies);
  add("frozen weights", sizes.frozen);
}

void add_buffers(const MemoryRequest& request, const Sizes& sizes, MemoryPlan& plan) {
  const auto& options = request.parallel;
  const std::int64_t slots = 1 + std::max({1, options.prefetch_forward, options.prefetch_backward});
  auto add = [&](std::string what, std::int64_t bytes) {
    if (bytes > 0) plan.rows.push_back({std::move(what), bytes});
    plan.buffer_bytes += bytes;
  };
  add(sizes.gather_slot > 0 ? fmt::format("gather slots ({} units) and root", slots)
                            : "gathered weights",
      slots * sizes.gather_slot + sizes.kept_gathers);
  add("reduce slots (2 units) and root", 2 * sizes.reduce_slot + sizes.kept_reductions);
  add("shards on their way to the other groups (2 units)", 2 * sizes.crossing);
}

// Weights and slots of the frozen model; its slots are its own.
void add_other(const MemoryRequest& request, MemoryPlan& plan) {
  parallel::ParallelOptions options;
  options.strategy =
      request.other->shard ? parallel::Strategy::full_shard : parallel::Strategy::no_shard;
  if (request.other->shard && request.other->shard_group_size > 0) {
    options.strategy = parallel::Strategy::hybrid_shard;
    options.shard_group_size = request.other->shard_group_size;
  }
  options.param_dtype = request.other->dtype;
  options.frozen_dtype = request.other->stored_dtype;
  options.device = request.parallel.device;
  const Sizes sizes = measure(request.other->units, options, request.world);
  plan.other_bytes = sizes.frozen + 2 * sizes.gather_slot + sizes.kept_gathers;
  plan.rows.push_back({request.other->shard ? "frozen model, sharded, and its gather slots"
                                            : "frozen model, replicated",
                       plan.other_bytes});
}

std::int64_t logits_bytes(const MemoryRequest& request, const model::ModelConfig& m, DType dtype) {
  const bool on_cpu = request.parallel.device.is_cpu() && request.parallel.param_dtype == kFloat32;
  return std::min(on_cpu ? kCpuLogitsChunkBytes : kLogitsChunkBytes,
                  bytes_of_params(request.tokens * m.vocab_size, dtype));
}

// A block's forward alone: the stream twice, what attention reads and gives, the feed-forward.
std::int64_t forward_bytes(const model::ModelConfig& m, std::int64_t c) {
  return c * (4 * m.dim + (2 * m.num_heads + 2 * m.num_kv_heads) * m.head_dim + 3 * m.ffn_dim);
}

// A block's backward: gradients of its widest intermediate beside the block's own activations.
std::int64_t backward_bytes(const model::ModelConfig& m, std::int64_t c) {
  return activation_bytes(m, model::Recompute::none, c) +
         c * (3 * m.dim + 3 * m.ffn_dim + 2 * (m.num_heads + 2 * m.num_kv_heads) * m.head_dim);
}

void add_activations(const MemoryRequest& request, MemoryPlan& plan) {
  const auto& m = request.model;
  const auto c = static_cast<std::int64_t>(element_bytes(request.parallel.param_dtype));
  std::int64_t together = 0;
  auto add = [&](std::string what, std::int64_t bytes) {
    if (bytes > 0) plan.rows.push_back({std::move(what), bytes});
    together += bytes;
  };
  if (!request.frozen)
    add("activations kept by the trunk",
        request.tokens * activation_bytes(m, request.recompute, c) * m.num_trunk_blocks());
  add("one block at work",
      request.tokens * (request.frozen ? forward_bytes(m, c) : backward_bytes(m, c)));
  if (request.heads)
    add("one chunk of logits", logits_bytes(request, m, request.parallel.param_dtype));
  // Input and its gradient in fp32, the normed stream, two hidden layers with theirs.
  if (request.value_head)
    add("value head at work", request.tokens * ((8 + c) * m.dim + 16 * (m.dim / 4 + m.dim / 8)));
  if (!request.other) return;
  const auto& other = *request.other;
  std::int64_t reading =
      request.tokens *
      forward_bytes(other.model, static_cast<std::int64_t>(element_bytes(other.dtype)));
  if (other.logits) reading += logits_bytes(request, other.model, other.dtype);
  // It has answered before the policy begins: only what goes beyond the policy's work counts.
  add("frozen model at work, beyond the above", std::max<std::int64_t>(0, reading - together));
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
  for (const Row& row : rows)
    if (!row.on_host) sum += row.bytes;
  return sum;
}

std::int64_t MemoryPlan::needed_bytes() const {
  return static_cast<std::int64_t>(static_cast<double>(total_bytes()) * kSlack);
}

std::string MemoryPlan::table() const {
  std::string text;
  auto line = [&text](std::string_view what, std::int64_t bytes) {
    text += fmt::format("  {:<56}{:>10.2f} GiB\n", what, static_cast<double>(bytes) / (1 << 30));
  };
  for (const Row& row : rows)
    line(row.on_host ? row.what + ", in host memory" : row.what, row.bytes);
  line("together", total_bytes());
  line("with 10 % for the allocator", needed_bytes());
  return text;
}

std::vector<layout::UnitSpec> planned_units(const MemoryRequest& request) {
  auto units = request.lora ? model::lora_units(request.model, *request.lora)
                            : model::model_units(request.model);
  if (request.frozen)
    for (layout::UnitSpec& unit : units)
      for (layout::ParamSpec& param : unit.params) param.trained = false;
  if (request.value_head)
    units.push_back(model::value_head_unit(*request.value_head, request.model.dim));
  return units;
}

MemoryPlan plan_memory(const MemoryRequest& request) {
  const Sizes sizes = measure(planned_units(request), request.parallel, request.world);
  MemoryPlan plan;
  add_state(request, sizes, plan);
  add_buffers(request, sizes, plan);
  if (request.other) add_other(request, plan);
  add_activations(request, plan);
  return plan;
}

}  // namespace wmtp::run
