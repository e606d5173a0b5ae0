#include "wmtp/bench/overlap_benchmark.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

namespace wmtp::bench {
namespace {

std::vector<layout::UnitSpec> equal_units(const OverlapShape& shape) {
  std::vector<layout::UnitSpec> units;
  for (int i = 0; i <= shape.units; ++i) {
    const std::string name = i == 0 ? "root" : fmt::format("layers.{}", i - 1);
    units.push_back({.name = name, .params = {{name + ".weight", {shape.width, shape.width}}}});
  }
  units.front().kept = true;
  return units;
}

std::vector<optim::TrainedShard> shards_of(parallel::Runtime& runtime) {
  std::vector<optim::TrainedShard> shards;
  const int rank = runtime.placement().shard_rank();
  for (int unit = 0; const parallel::UnitState& state : runtime.states())
    shards.push_back({.plan = state.plan.trained,
                      .rank = rank,
                      .master = state.master.values(),
                      .grad = state.grad,
                      .compute_copy = state.copy,
                      .unit = UnitId(unit++)});
  return shards;
}

constexpr UnitId kRootUnit{0};

}  // namespace

OverlapModel::OverlapModel(const OverlapShape& shape, const parallel::ParallelOptions& options,
                           const parallel::Groups& groups)
    : shape_(shape),
      runtime_(equal_units(shape), options, groups),
      optimizer_(shards_of(runtime_),
                 {.groups = {{.name = "policy", .learning_rate = 1e-6}}, .group_of = nullptr}, {}),
      input_(at::full({shape.rows, shape.width}, 1e-2, at::kFloat)),
      output_(at::empty_like(input_)),
      grad_input_(at::empty_like(input_)),
      local_weights_(at::full({1 + shape.units, shape.width * shape.width}, 1e-3, at::kFloat)),
      local_grad_(at::empty_like(local_weights_)),
      grad_scale_(at::ones({}, at::kFloat)),
      apply_(at::ones({}, at::kInt)) {
  runtime_.fill([](const layout::ParamSpec&, std::int64_t, const Tensor& out) { out.fill_(1e-3); });
}

void OverlapModel::forward(const Tensor& weights) {
  at::mm_out(output_, input_, weights.view({shape_.width, shape_.width}));
}

void OverlapModel::backward(const Tensor& weights, const Tensor& grad) {
  at::mm_out(grad_input_, output_, weights.view({shape_.width, shape_.width}).t());
  Tensor grad_weights = grad.view({shape_.width, shape_.width});
  at::mm_out(grad_weights, input_.t(), output_);
}

Tensor OverlapModel::acquire(int unit, bool backward, const StepParts& parts) {
  return parts.gathers ? runtime_.acquire(UnitId(unit), backward).trained
                       : local_weights_.select(0, unit);
}

void OverlapModel::backward_unit(int unit, const Tensor& weights, const StepParts& parts) {
  const Tensor grad =
      parts.reduces ? runtime_.open_grad(UnitId(unit)).flat : local_grad_.select(0, unit);
  if (parts.computes) backward(weights, grad);
  if (parts.reduces) runtime_.close_grad(UnitId(unit));
}

void OverlapModel::step(const StepParts& parts) {
  runtime_.begin_step();
  runtime_.begin_micro_batch(/*last=*/true);
  const Tensor root = acquire(0, false, parts);
  if (parts.computes) forward(root);
  for (int unit = 1; unit <= shape_.units; ++unit) {
    const Tensor weights = acquire(unit, false, parts);
    if (parts.computes) forward(weights);
    runtime_.release(UnitId(unit));
  }
  for (int unit = shape_.units; unit > 0; --unit) {
    backward_unit(unit, acquire(unit, true, parts), parts);
    runtime_.release(UnitId(unit));
  }
  backward_unit(0, root, parts);
  runtime_.release(kRootUnit);
  if (parts.reduces) runtime_.finish_grads();
  update(parts);
}

void OverlapModel::update(const StepParts& parts) {
  const auto update_unit = [&](UnitId unit, const std::function<void()>& update) {
    if (parts.gathers)
      runtime_.update_unit(unit, update);
    else
      update();
  };
  if (parts.gathers) runtime_.begin_update();
  if (parts.computes)
    return optimizer_.apply({.grad_scale = grad_scale_, .apply = apply_}, update_unit);
  for (int unit = 0; unit <= shape_.units; ++unit) update_unit(UnitId(unit), [] {});
}

void OverlapModel::gather_root() {
  runtime_.acquire(kRootUnit, /*backward=*/false);
  runtime_.release(kRootUnit);
}

void OverlapModel::prepare_root_gradient() {
  runtime_.begin_step();
  runtime_.begin_micro_batch(/*last=*/true);
  runtime_.open_grad(kRootUnit);
}

void OverlapModel::reduce_root() {
  runtime_.close_grad(kRootUnit);
  runtime_.finish_grads();
}

}  // namespace wmtp::bench
