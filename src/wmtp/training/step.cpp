#include "wmtp/training/step.h"

#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "wmtp/core/failpoint.h"
#include "wmtp/kernels/grad_norm.h"
#include "wmtp/optim/clip.h"

namespace wmtp::training {
namespace {

// The factor of each head's gradient, 1 / (H' N_k), fixed before the first backward: H' heads have
// targets.
std::vector<double> gradient_scales(const StepInput& input) {
  const auto active = std::count_if(input.head_targets.begin(), input.head_targets.end(),
                                    [](auto n) { return n > 0; });
  std::vector<double> scales;
  for (std::int64_t count : input.head_targets)
    scales.push_back(count > 0 ? 1 / (static_cast<double>(active) * static_cast<double>(count))
                               : 0);
  return scales;
}

bool any_target(const StepInput& input) {
  return std::any_of(input.head_targets.begin(), input.head_targets.end(),
                     [](auto n) { return n > 0; });
}

}  // namespace

StepTotals::StepTotals(int heads, c10::Device device)
    : num_heads(heads),
      packed(at::zeros({heads + 2}, at::TensorOptions().dtype(at::kDouble).device(device))) {}

PendingResult Step::run(const StepInput& input, bool stop_requested) {
  StepTotals totals(static_cast<int>(input.head_targets.size()), runtime_.options().device);
  failpoint::pass("step.begin");
  const std::vector<double> scales = gradient_scales(input);
  runtime_.begin_step();
  for (std::size_t i = 0; i < input.micro_batches.size(); ++i) {
    runtime_.begin_micro_batch(/*last=*/i + 1 == input.micro_batches.size());
    run_micro_batch(input.micro_batches[i], scales, totals);
  }
  failpoint::pass("step.reduce.before");
  runtime_.finish_grads();
  add_gradient_norm(totals);
  if (failpoint::pass("step.loss") == failpoint::Action::damage) totals.loss_sum(0).fill_(NAN);
  if (failpoint::pass("step.grad_norm") == failpoint::Action::damage)
    totals.squared_norm().fill_(INFINITY);
  if (stop_requested) totals.stop_votes().fill_(1);
  reduce_.all_reduce(totals.packed, "totals").wait();

  const Tensor finite = at::isfinite(totals.packed.sum());
  const Tensor apply =
      any_target(input) ? finite.to(at::kInt) : at::zeros({}, finite.options().dtype(at::kInt));
  const auto dtype = runtime_.options().master_dtype == kFloat64 ? at::kDouble : at::kFloat;
  failpoint::pass("step.apply.before");
  const Tensor scale = options_.loss_scale ? options_.loss_scale->value().clone() : Tensor();
  const Tensor norm2 =
      scale.defined() ? totals.squared_norm().div(scale.square()) : totals.squared_norm();
  Tensor grad_scale = optim::clip_scale(norm2, options_.max_grad_norm, dtype);
  if (scale.defined()) grad_scale.div_(scale);
  optimizer_.apply({.grad_scale = grad_scale,
                    .apply = apply,
                    .schedule_factor = input.schedule_factor,
                    .min_learning_rate = input.min_learning_rate});
  runtime_.weights_changed();
  if (options_.loss_scale) update_loss_scale(totals, apply);
  return {totals, apply, input.head_targets, scale};
}

void Step::update_loss_scale(const StepTotals& totals, const Tensor& apply) {
  const Tensor loss_finite = at::isfinite(totals.packed.narrow(0, 0, totals.num_heads).sum());
  const Tensor norm_finite = at::isfinite(totals.squared_norm());
  options_.loss_scale->update(loss_finite.logical_and(norm_finite.logical_not()), apply);
}

void Step::run_micro_batch(const model::Batch& batch, const std::vector<double>& scales,
                           StepTotals& totals) {
  model::TrunkPass trunk = model_.forward_trunk(batch);
  failpoint::pass("step.forward.mid");
  for (int head = 0; head < totals.num_heads; ++head) {
    model::HeadPass pass = model_.forward_head(trunk, batch, head);
    const auto dtype = pass.rstd_M.scalar_type();
    const Tensor scale_M =
        at::full({batch.heads[static_cast<std::size_t>(head)].count()},
                 scales[static_cast<std::size_t>(head)], pass.rstd_M.options().dtype(dtype));
    if (options_.loss_scale) scale_M.mul_(options_.loss_scale->value());
    const Tensor nll_M = model_.backward_head(trunk, std::move(pass), batch, scale_M);
    totals.loss_sum(head).add_(at::sum(nll_M, at::kDouble));
  }
  failpoint::pass("step.backward.mid");
  model_.backward_trunk(std::move(trunk), batch);
}

void Step::add_gradient_norm(StepTotals& totals) {
  if (!runtime_.counts_once()) return;
  const Tensor sum = totals.squared_norm();
  const bool on_host = runtime_.options().offloads();  // then the gradients are there too
  const Tensor norm2 = on_host ? at::zeros({}, at::kDouble) : sum;
  for (const parallel::UnitState& state : runtime_.states())
    if (state.grad.defined()) kernels::add_squared_norm(state.grad, norm2);
  if (on_host) sum.copy_(norm2);
}

StepResult PendingResult::read() const {
  const Tensor host = totals.packed.cpu();
  const double* sums = host.data_ptr<double>();
  StepResult result;
  int active = 0;
  for (std::size_t head = 0; head < head_targets.size(); ++head) {
    const std::int64_t count = head_targets[head];
    result.head_losses.push_back(count > 0 ? sums[head] / static_cast<double>(count) : 0);
    result.loss += result.head_losses.back();
    active += count > 0;
  }
  if (active > 0) result.loss /= active;
  result.loss_scale = loss_scale.defined() ? loss_scale.item<double>() : 1;
  result.grad_norm = std::sqrt(sums[totals.num_heads]) / result.loss_scale;
  result.stop = sums[totals.num_heads + 1] > 0;
  result.applied = apply.item<int>() != 0;
  result.overflow =
      result.loss_scale > 1 && std::isfinite(result.loss) && !std::isfinite(result.grad_norm);
  return result;
}

}  // namespace wmtp::training
