#include "wmtp/training/step.h"

#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "wmtp/core/failpoint.h"
#include "wmtp/optim/clip.h"
#include "wmtp/tensor/copy_to_device.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::training {

Step::Step(parallel::Runtime& runtime, Objective& objective, optim::AdamW& optimizer,
           comm::Communicator& reduce, const StepOptions& options)
    : runtime_(runtime),
      objective_(objective),
      optimizer_(optimizer),
      reduce_(reduce),
      options_(options),
      // The collectives of several ranks part a recording, and no piece may leave a stream behind.
      norms_(runtime, /*beside=*/!options.cuda_graphs || reduce.world() == 1),
      layout_(reduce.world()) {
  layout_.add("squared_norm");  // of the gradient, loss scale included
  layout_.add("bad");           // signals that are not finite
  layout_.add("stop");          // ranks that were asked to stop
  layout_.add("save");          // or to save
  layout_.add("tokens", 2);     // attended, and sum of squared lengths
  objective.add_slots(layout_);
  if (options.cuda_graphs)
    graphs_ = std::make_unique<StepGraphs>(
        runtime, make_totals(),
        [this](const StepFacts& facts, std::span<const DeviceBatch> batches, Totals& totals) {
          compute(facts, batches, totals);
        });
}

Totals Step::make_totals() const {
  return Totals(layout_, reduce_.rank(), runtime_.options().device);
}

void Step::compute(const StepFacts& facts, std::span<const DeviceBatch> batches, Totals& totals) {
  norms_.begin_step();
  runtime_.begin_step();
  objective_.begin_step(facts, batches);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    runtime_.begin_micro_batch(/*last=*/i + 1 == batches.size());
    objective_.run(i, batches[i], totals);
  }
  failpoint::pass("step.reduce.before");
  finish_gradients(totals);
  objective_.close_totals(totals);
}

Totals Step::make_gradients(StepFacts& facts, std::span<const DeviceBatch> batches) {
  if (graphs_) {
    std::vector<DeviceBatch> prepared(batches.begin(), batches.end());
    objective_.prepare(prepared);
    facts.numbers =
        copy_to_device<double>(objective_.step_numbers(facts), runtime_.options().device);
    return graphs_->run(facts, prepared);
  }
  Totals totals = make_totals();
  compute(facts, batches, totals);
  return totals;
}

PendingResult Step::run(const StepInput& input, const StopSaveFlags& asked) {
  StepFacts facts = input.facts;
  if (options_.loss_scale) facts.loss_scale = options_.loss_scale->value().clone();
  failpoint::pass("step.begin");
  Totals totals = make_gradients(facts, input.micro_batches);
  if (failpoint::pass("step.loss") == failpoint::Action::damage) totals["bad"].fill_(NAN);
  if (failpoint::pass("step.grad_norm") == failpoint::Action::damage)
    totals["squared_norm"].fill_(INFINITY);
  if (asked.stop) totals["stop"].fill_(1);
  if (asked.save) totals["save"].fill_(1);
  totals["tokens"].select(0, 0).fill_(input.num_tokens);
  totals["tokens"].select(0, 1).fill_(input.squared_lengths);
  {
    const ProfileScope scope("totals");
    totals.reduce(reduce_, "totals");
  }
  const Tensor apply = may_apply(totals, facts);
  objective_.end_step(totals, apply);
  PendingResult result(totals, apply, facts, &objective_, options_.max_grad_norm);
  failpoint::pass("step.apply.before");
  update(input, facts, totals, apply);
  return result;
}

Tensor Step::may_apply(const Totals& totals, const StepFacts& facts) const {
  const Tensor good = totals.finite().logical_and(totals["bad"].select(0, 0).eq(0)).to(at::kInt);
  return objective_.has_targets(facts) ? good : at::zeros({}, good.options());
}

void Step::update(const StepInput& input, const StepFacts& facts, const Totals& totals,
                  const Tensor& apply) {
  const ProfileScope scope_of_update("update");
  const Tensor& scale = facts.loss_scale;
  const Tensor scaled_norm2 = totals["squared_norm"].select(0, 0);
  const Tensor norm2 = scale.defined() ? scaled_norm2.div(scale.square()) : scaled_norm2;
  const auto dtype = runtime_.options().master_dtype == kFloat64 ? at::kDouble : at::kFloat;
  Tensor grad_scale = optim::clip_scale(norm2, options_.max_grad_norm, dtype);
  if (scale.defined()) grad_scale.div_(scale);
  runtime_.begin_update();
  optimizer_.apply({.grad_scale = grad_scale,
                    .apply = apply,
                    .schedule_factor = input.schedule_factor,
                    .min_learning_rate = input.min_learning_rate},
                   [this](UnitId unit, const std::function<void()>& update_shard) {
                     runtime_.update_unit(unit, update_shard);
                   });
  if (!options_.loss_scale) return;
  const Tensor others_finite = totals.finite_but("squared_norm");
  options_.loss_scale->update(others_finite.logical_and(at::isfinite(scaled_norm2).logical_not()),
                              apply);
}

void Step::finish_gradients(Totals& totals) {
  {
    const ProfileScope scope("finish gradients");
    runtime_.finish_grads();
  }
  if (!runtime_.counts_once()) return;
  totals["squared_norm"].select(0, 0).copy_(norms_.total());
}

StepResult PendingResult::read() const {
  const HostTotals host(*layout_, totals_.wait());
  const Numbers numbers = objective_->read(facts_, host);
  StepResult result;
  result.loss = numbers.loss;
  if (failpoint::pass("step.loss.spike") == failpoint::Action::damage) result.loss *= 100;
  result.metrics = numbers.metrics;
  if (const Tensor& scale = loss_scale_.wait(); scale.defined())
    result.loss_scale = scale.item<double>();
  result.grad_norm = std::sqrt(host.value("squared_norm")) / result.loss_scale;
  if (max_grad_norm_ > 0)
    result.clip_ratio = std::min(1.0, max_grad_norm_ / (result.grad_norm + 1e-6));
  result.applied = apply_.wait().item<int>() != 0;
  result.overflow = result.loss_scale > 1 && std::isfinite(result.loss) && host.value("bad") == 0 &&
                    !std::isfinite(result.grad_norm);
  result.bad = !result.applied && !result.overflow && objective_->has_targets(facts_);
  result.stop = host.value("stop") > 0;
  result.save = host.value("save") > 0;
  result.num_tokens = host.values("tokens")[0];
  result.squared_lengths = host.values("tokens")[1];
  result.facts = facts_;
  result.totals = host;
  return result;
}

}  // namespace wmtp::training
