#include "wmtp/parallel/unit_state.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "wmtp/parallel/float8_weights.h"
#include "wmtp/tensor/storage_memory.h"

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

int frozen_rank(const ParallelOptions& options, const Placement& placement) {
  return frozen_world(options, placement) == 1 ? 0 : placement.shard_rank();
}

// `read` is the dtype that ranges are asked for in.
void fill_bucket(const layout::BucketPlan& plan, int rank, const Master& shard, DType read,
                 const ReadParam& fill) {
  for (const layout::Piece& piece : plan.pieces(rank)) {
    const std::int64_t size = piece.in_param.size();
    const Master target = shard.narrow({piece.in_shard, piece.in_shard + size});
    const layout::ParamSpec& param = plan.params()[piece.param];
    if (target.values().is_cpu() && target.values().scalar_type() == read) {
      fill(param, piece.in_param.begin, target.values());
    } else {
      const Tensor host = at::empty({size}, at::TensorOptions().dtype(read));
      fill(param, piece.in_param.begin, host);
      target.write(host);
    }
  }
}

// What is computed with in float8 is made of whole numbers: planes would be joined at every use.
Master make_master(const layout::UnitPlan& plan, const ParallelOptions& options, DType dtype) {
  const at::TensorOptions where = shard_options(options, dtype);
  const std::int64_t size = plan.trained.shard_numel();
  return options.splits(plan.full_precision) && !has_float8(plan.trained)
             ? Master::in_planes(size, where)
             : Master(at::zeros({size}, where));
}

bool same_shape(const layout::BucketPlan& a, const layout::BucketPlan& b) {
  return std::ranges::equal(a.params(), b.params(), [](const auto& one, const auto& other) {
    return one.shape == other.shape && one.trained == other.trained &&
           one.quantized == other.quantized;
  });
}

bool same_shape(const UnitState& a, const UnitState& b) {
  return same_shape(a.plan.trained, b.plan.trained) && same_shape(a.plan.frozen, b.plan.frozen) &&
         a.plan.full_precision == b.plan.full_precision;
}

void copy_weights(const UnitState& from, UnitState& to) {
  const std::vector<Tensor> masters = from.master.tensors(), written = to.master.tensors();
  for (std::size_t i = 0; i < masters.size(); ++i) written[i].copy_(masters[i]);
  if (from.copy.defined()) to.copy.copy_(from.copy);
  if (from.frozen.defined()) to.frozen.copy_(from.frozen);
  if (from.quantized) to.quantized->copy_from(*from.quantized);
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
      state.master = make_master(state.plan, options, master);
      state.grad = at::zeros({size}, shard_options(options, wide));
      if (options.frees_grads) release_memory(state.grad);
      const bool copied = options.strategy == Strategy::no_shard &&
                          state.compute_dtype != state.master.values().scalar_type() &&
                          !has_float8(state.plan.trained);  // made of the master at every use
      if (copied && !options.offloads())  // from host memory it goes to a slot at every use
        state.copy = at::zeros(
            {size}, at::TensorOptions().dtype(state.compute_dtype).device(options.device));
    }
    const DType stored = state.plan.full_precision
                             ? state.compute_dtype
                             : options.frozen_dtype.value_or(state.compute_dtype);
    if (has_quantized(state.plan.frozen))
      state.quantized.emplace(state.plan.frozen, frozen_rank(options, placement),
                              shard_options(options, stored),
                              options.frozen_dtype.value_or(kFloat32));
    else if (const std::int64_t size = state.plan.frozen.shard_numel(); size > 0)
      state.frozen = at::zeros({size}, shard_options(options, stored));
    states.push_back(std::move(state));
  }
  return states;
}

void fill_unit_states(std::vector<UnitState>& states, const ParallelOptions& options,
                      const Placement& placement, const FillSources& sources) {
  const DType master = options.master_dtype == kFloat64 ? kFloat64 : kFloat32;
  for (auto unit = states.begin(); unit != states.end(); ++unit) {
    UnitState& state = *unit;
    if (sources.alike) {
      const auto first = std::ranges::find_if(
          states.begin(), unit, [&](const UnitState& one) { return same_shape(one, state); });
      if (first != unit) {
        copy_weights(*first, state);
        continue;
      }
    }
    if (state.master.defined())
      fill_bucket(state.plan.trained, placement.shard_rank(), state.master, master, sources.values);
    if (state.copy.defined()) kernels::round_to_compute(state.master.values(), state.copy);
    if (state.frozen.defined())
      fill_bucket(state.plan.frozen, frozen_rank(options, placement), Master(state.frozen), master,
                  sources.values);
    if (state.quantized)
      state.quantized->fill(state.plan.frozen,
                            {sources.values, sources.stored, sources.frozen_group});
  }
}

}  // namespace wmtp::parallel
