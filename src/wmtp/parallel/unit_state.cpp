#include "wmtp/parallel/unit_state.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace wmtp::parallel {
namespace {

at::TensorOptions shard_options(const ParallelOptions& options, DType dtype) {
  const bool offload = options.offloads();
  return at::TensorOptions()
      .dtype(dtype)
      .device(offload ? c10::Device(c10::DeviceType::CPU) : options.device)
      .pinned_memory(offload);
}

int frozen_world(const ParallelOptions& options, const Placement& placement) {
  return options.shards_frozen() ? placement.shard_world : 1;
}

void fill_bucket(const layout::BucketPlan& plan, int rank, const Tensor& shard, DType master,
                 const ReadParam& fill) {
  for (const layout::Piece& piece : plan.pieces(rank)) {
    const Tensor target = shard.narrow(0, piece.in_shard, piece.in_param.size());
    const layout::ParamSpec& param = plan.params()[piece.param];
    if (target.device().is_cpu() && target.scalar_type() == master) {
      fill(param, piece.in_param.begin, target);
    } else {
      const Tensor host = at::empty({piece.in_param.size()}, at::TensorOptions().dtype(master));
      fill(param, piece.in_param.begin, host);
      target.copy_(host);
    }
  }
}

}  // namespace

std::vector<UnitState> make_unit_states(const std::vector<layout::UnitSpec>& units,
                                        const ParallelOptions& options,
                                        const Placement& placement) {
  const auto trained_plan =
      layout::shard_plan(units, placement.shard_world, options.trained_alignment);
  const auto frozen_plan = layout::shard_plan(units, frozen_world(options, placement));
  std::vector<UnitState> states;
  for (std::size_t u = 0; u < units.size(); ++u) {
    UnitState state;
    state.plan = trained_plan[u];
    state.plan.frozen = frozen_plan[u].frozen;
    const DType wide = options.master_dtype == kFloat64 ? kFloat64 : kFloat32;
    const DType master = state.plan.full_precision ? wide : options.master_dtype;
    state.compute_dtype = state.plan.full_precision ? wide : options.param_dtype;
    if (const std::int64_t size = state.plan.trained.shard_numel(); size > 0) {
      state.master = at::zeros({size}, shard_options(options, master));
      state.grad = at::zeros({size}, shard_options(options, wide));
      const bool copied = options.strategy == Strategy::no_shard && state.compute_dtype != master;
      if (copied && !options.offloads())  // a master in host memory is cast on its way to a slot
        state.copy = at::zeros(
            {size}, at::TensorOptions().dtype(state.compute_dtype).device(options.device));
    }
    const DType stored = state.plan.full_precision
                             ? state.compute_dtype
                             : options.frozen_dtype.value_or(state.compute_dtype);
    if (const std::int64_t size = state.plan.frozen.shard_numel(); size > 0)
      state.frozen = at::zeros({size}, shard_options(options, stored));
    states.push_back(std::move(state));
  }
  return states;
}

void fill_unit_states(std::vector<UnitState>& states, const ParallelOptions& options,
                      const Placement& placement, const ReadParam& fill) {
  const DType master = options.master_dtype == kFloat64 ? kFloat64 : kFloat32;
  for (UnitState& state : states) {
    if (state.master.defined())
      fill_bucket(state.plan.trained, placement.shard_rank(), state.master, master, fill);
    if (state.copy.defined()) state.copy.copy_(state.master);
    const int frozen_rank = frozen_world(options, placement) == 1 ? 0 : placement.shard_rank();
    if (state.frozen.defined())
      fill_bucket(state.plan.frozen, frozen_rank, state.frozen, master, fill);
  }
}

}  // namespace wmtp::parallel
