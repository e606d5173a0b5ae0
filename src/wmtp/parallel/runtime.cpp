#include "wmtp/parallel/runtime.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace wmtp::parallel {

Runtime::Runtime(const std::vector<layout::UnitSpec>& units, const ParallelOptions& options,
                 const Groups& groups)
    : options_(options),
      placement_(placement_of(options, groups.reduce->rank(), groups.reduce->world())),
      groups_(sharding_groups(groups, placement_)),
      states_(make_unit_states(units, options, placement_)),
      pending_(options_, states_.size(), [this](UnitId unit) { reducer_.updated(unit); }),
      gatherer_(states_, options_, pending_, groups_.gather),
      reducer_(states_, options_, groups_) {}

void Runtime::fill(const ReadParam& values, const ReadNf4& stored) {
  fill_from({.values = values, .stored = stored});
}

void Runtime::fill_alike(const ReadParam& values) {
  fill_from({.values = values, .alike = true});
}

void Runtime::fill_from(FillSources sources) {
  settle();
  gatherer_.invalidate();  // first: a gather under way may still read the masters
  if (options_.shards_frozen()) sources.frozen_group = groups_.gather;
  fill_unit_states(states_, options_, placement_, sources);
}

void Runtime::begin_step() {
  reducer_.begin_step();
}

void Runtime::begin_micro_batch(bool last) {
  gatherer_.begin_pass(0);
  reducer_.begin_micro_batch(last);
}

std::int64_t Runtime::state_bytes() const {
  std::int64_t bytes = 0;
  for (const UnitState& state : states_) {
    bytes += state.master.bytes();
    for (const Tensor* part : {&state.grad, &state.copy, &state.frozen})
      if (part->defined()) bytes += static_cast<std::int64_t>(part->nbytes());
    if (state.quantized) bytes += state.quantized->bytes();
  }
  return bytes;
}

void Runtime::gather_full(const Take& take) {
  if (placement_.replica() != 0) return;
  for (const UnitState& state : states()) {
    if (state.master.defined()) gather_bucket(state.plan.trained, state.master.joined(), take);
    if (state.frozen.defined()) gather_bucket(state.plan.frozen, state.frozen, take);
    if (!state.quantized) continue;
    const DType wide = options_.master_dtype == kFloat64 ? kFloat64 : kFloat32;
    const Tensor shard = at::zeros({state.plan.frozen.shard_numel()},
                                   at::TensorOptions().dtype(wide).device(options_.device));
    state.quantized->dequantize(shard);
    gather_bucket(state.plan.frozen, shard, take);
  }
}

void Runtime::gather_bucket(const layout::BucketPlan& plan, const Tensor& shard, const Take& take) {
  Tensor whole = shard;
  if (plan.padded_numel() > shard.numel()) {
    whole = at::empty({plan.padded_numel()},
                      shard.options().device(options_.device).pinned_memory(false));
    groups_.gather->all_gather(whole, shard.to(options_.device), "state").wait();
  }
  if (placement_.rank != 0) return;
  const Tensor host = whole.cpu();
  for (std::size_t p = 0; p < plan.params().size(); ++p) {
    const layout::Range range = plan.param_range(p);
    take(plan.params()[p], host.narrow(0, range.begin, range.size()).view(plan.params()[p].shape));
  }
}

}  // namespace wmtp::parallel
