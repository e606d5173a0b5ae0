// What a fetch is: which parts of a unit are gathered, and how each rank's own part is made.
#include "wmtp/parallel/gatherer.h"

#include <utility>

namespace wmtp::parallel {

bool Gatherer::is_sharded(const layout::BucketPlan& plan) {
  return plan.padded_numel() > plan.shard_numel();
}

// Frozen weights that are whole, on the device and of the compute dtype are used where they lie.
bool Gatherer::gathers_frozen(const UnitState& state) const {
  if (state.quantized) return true;
  return state.frozen.defined() &&
         (is_sharded(state.plan.frozen) || state.frozen.device() != options_.device ||
          state.frozen.scalar_type() != state.compute_dtype);
}

// Of the compute dtype, also where bytes lie in it.
std::int64_t Gatherer::buffer_numel(const UnitState& state) const {
  const auto size = static_cast<std::int64_t>(element_bytes(state.compute_dtype));
  if (has_float8(state.plan.trained)) return (state.plan.trained.padded_numel() + size - 1) / size;
  return (state.copy.defined() ? 0 : state.plan.trained.padded_numel()) +
         (gathers_frozen(state) ? state.plan.frozen.padded_numel() : 0);
}

void Gatherer::fill(std::size_t unit, Buffer& buffer) {
  const UnitState& state = states_[unit];
  if (float8_.has(unit)) {
    // As bytes: a backend has no name for numbers of 8 bits.
    buffer.trained_work =
        gather(state, {state.plan.trained, Tensor()}, bytes_of(unit, buffer).view(at::kByte),
               [&](const Tensor& own) { float8_.quantise(unit, own.view(at::kFloat8_e4m3fn)); });
    return;
  }
  std::int64_t at = 0;
  const auto take = [&](const layout::BucketPlan& plan) {
    const std::int64_t begin = std::exchange(at, at + plan.padded_numel());
    return buffer.storage.narrow(0, begin, plan.padded_numel());
  };
  if (state.master.defined() && !state.copy.defined())
    buffer.trained_work =
        gather(state, {state.plan.trained, state.master.values()}, take(state.plan.trained),
               [&](const Tensor& own) { kernels::round_to_compute(state.master.values(), own); });
  if (gathers_frozen(state))
    buffer.frozen_work = gather(state, {state.plan.frozen, state.frozen}, take(state.plan.frozen),
                                [&](const Tensor& own) {
                                  if (state.quantized)
                                    state.quantized->dequantize(own);
                                  else
                                    own.copy_(state.frozen, /*non_blocking=*/true);
                                });
}

// The rank's own part is made where the gather leaves it, unless its shard is sent as it is kept.
// Of weights in NF4 values travel, not bytes of 4 bits.
comm::Work Gatherer::gather(const UnitState& state, const Kept& kept, const Tensor& whole,
                            const std::function<void(const Tensor&)>& make) {
  const bool sharded = is_sharded(kept.plan);
  const bool as_kept = sharded && kept.shard.defined() &&
                       kept.shard.scalar_type() == whole.scalar_type() &&
                       kept.shard.device() == whole.device();
  Tensor own = kept.shard;
  if (!as_kept) {
    const std::int64_t size = kept.plan.shard_numel();
    own = whole.narrow(0, sharded ? group_->rank() * size : 0, size);
    make(own);
  }
  if (!sharded) return {};
  return group_->all_gather(whole, own, state.plan.name);
}

}  // namespace wmtp::parallel
