#include "wmtp/run/plan/unit_memory.h"

#include <algorithm>

#include "wmtp/layout/shard_plan.h"
#include "wmtp/optim/moments.h"
#include "wmtp/parallel/float8_weights.h"
#include "wmtp/parallel/quantized_shard.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::run {
namespace {

std::int64_t bytes_of_params(std::int64_t numel, DType dtype) {
  return numel * static_cast<std::int64_t>(element_bytes(dtype));
}

// How the runtime keeps one unit.
struct UnitRules {
  DType master, compute, wire, frozen;
  // The optimizer keeps a copy; the master, or its upper plane, is computed with.
  bool copied = false, aliased = false;
};

UnitRules rules_of(const parallel::ParallelOptions& options, const layout::UnitPlan& unit) {
  UnitRules rules{options.master_dtype, options.param_dtype, options.reduce_dtype,
                  options.frozen_dtype.value_or(options.param_dtype)};
  if (unit.full_precision) rules.master = rules.compute = rules.wire = rules.frozen = kFloat32;
  const bool same = rules.master == rules.compute || options.splits(unit.full_precision);
  const bool whole = unit.trained.padded_numel() == unit.trained.shard_numel();
  const bool lies = !options.offloads() && !parallel::has_float8(unit.trained);
  rules.copied = options.strategy == parallel::Strategy::no_shard && !same && lies;
  rules.aliased = whole && same && lies;
  return rules;
}

// What is not computed with in float8.
std::int64_t vectors_of(const layout::BucketPlan& trained) {
  std::int64_t sum = 0;
  for (const layout::ParamSpec& param : trained.params())
    if (param.float8_matrix == 0) sum += param.numel();
  return sum;
}

bool is_sharded(const layout::BucketPlan& bucket) {
  return bucket.padded_numel() > bucket.shard_numel();
}

void add_gather(const parallel::ParallelOptions& options, const layout::UnitPlan& unit,
                const UnitRules& rules, UnitMemory& sizes) {
  const layout::BucketPlan &trained = unit.trained, &frozen = unit.frozen;
  const bool gathers_frozen =
      !frozen.empty() && (is_sharded(frozen) || options.offloads() ||
                          rules.frozen != rules.compute || parallel::has_quantized(frozen));
  if ((trained.empty() || rules.aliased || rules.copied) && !gathers_frozen) return;
  const bool float8 = parallel::has_float8(trained);
  const std::int64_t numel =
      (rules.copied ? 0 : trained.padded_numel()) + (gathers_frozen ? frozen.padded_numel() : 0);
  const std::int64_t bytes = float8 ? numel : bytes_of_params(numel, rules.compute);
  if (float8) sizes.kept_gathers += bytes_of_params(vectors_of(trained), rules.compute);
  if (unit.kept || (options.strategy == parallel::Strategy::shard_grad_op && !gathers_frozen))
    sizes.kept_gathers += bytes;
  else
    sizes.gather_slot = std::max(sizes.gather_slot, bytes);
  const std::int64_t sent = std::max(is_sharded(trained) ? trained.padded_numel() : 0,
                                     is_sharded(frozen) ? frozen.padded_numel() : 0);
  std::int64_t& largest = unit.kept ? sizes.gathered_root : sizes.gathered_unit;
  largest = std::max(largest, float8 ? sent : bytes_of_params(sent, rules.compute));
}

void add_reduction(const parallel::ParallelOptions& options, const layout::UnitPlan& unit,
                   const UnitRules& rules, UnitMemory& sizes) {
  const std::int64_t bytes = bytes_of_params(unit.trained.padded_numel(), rules.wire);
  if (unit.kept || unit.full_precision || options.no_sync)
    sizes.kept_reductions += bytes;
  else
    sizes.reduce_slot = std::max(sizes.reduce_slot, bytes);
}

void add_crossing(const parallel::ParallelOptions& options, const parallel::Placement& place,
                  const layout::UnitPlan& unit, const UnitRules& rules, UnitMemory& sizes) {
  if (place.num_replicas() == 1 || (rules.wire == kFloat32 && !options.offloads())) return;
  const std::int64_t bytes = bytes_of_params(unit.trained.shard_numel(), rules.wire);
  if (place.shard_world > 1)
    sizes.crossing = std::max(sizes.crossing, bytes);
  else if (!options.offloads())
    (unit.kept ? sizes.root_wire_copy : sizes.wire_copies) += bytes;
}

void add_read(const layout::BucketPlan& bucket, DType stored, UnitMemory& sizes) {
  if (stored == kFloat32) return;
  for (const layout::Piece& piece : bucket.pieces(/*rank=*/0))
    sizes.widest_read =
        std::max(sizes.widest_read, bytes_of_params(piece.in_param.size(), kFloat32));
}

void add_frozen(const parallel::ParallelOptions& options, const layout::BucketPlan& bucket,
                DType stored, UnitMemory& sizes) {
  using parallel::QuantizedShard;
  if (!parallel::has_quantized(bucket)) {
    sizes.frozen += bytes_of_params(bucket.shard_numel(), stored);
    return add_read(bucket, stored, sizes);
  }
  sizes.frozen += QuantizedShard::bytes_of(bucket, /*rank=*/0, stored);
  const DType rounded = options.frozen_dtype.value_or(kFloat32);
  sizes.widest_read = std::max(sizes.widest_read, QuantizedShard::fill_bytes_of(bucket, rounded));
  if (options.offloads())
    sizes.uploaded_nf4 =
        std::max(sizes.uploaded_nf4, QuantizedShard::upload_bytes_of(bucket, /*rank=*/0));
}

}  // namespace

UnitMemory unit_memory(const std::vector<layout::UnitSpec>& units,
                       const parallel::ParallelOptions& options, optim::Recipe recipe, int world) {
  const parallel::Placement place = parallel::placement_of(options, /*rank=*/0, world);
  const auto trained = layout::shard_plan(units, place.shard_world, options.trained_alignment);
  const auto frozen = layout::shard_plan(units, options.shards_frozen() ? place.shard_world : 1);
  UnitMemory sizes;
  for (std::size_t u = 0; u < trained.size(); ++u) {
    layout::UnitPlan unit = trained[u];
    unit.frozen = frozen[u].frozen;
    const UnitRules rules = rules_of(options, unit);
    const std::int64_t shard = unit.trained.shard_numel();
    sizes.masters += bytes_of_params(shard, rules.master);
    sizes.masters += optim::moment_layout(unit.trained, place.shard_world - 1,
                                          {recipe, !unit.kept, unit.full_precision, rules.master})
                         .bytes();
    sizes.grads.push_back(bytes_of_params(shard, kFloat32));
    if (rules.copied) sizes.copies += bytes_of_params(shard, rules.compute);
    add_read(unit.trained, rules.master, sizes);
    add_frozen(options, unit.frozen, rules.frozen, sizes);
    add_gather(options, unit, rules, sizes);
    if (place.shard_world > 1 || options.offloads()) add_reduction(options, unit, rules, sizes);
    add_crossing(options, place, unit, rules, sizes);
  }
  return sizes;
}

}  // namespace wmtp::run
