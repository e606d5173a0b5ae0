#include "wmtp/training/objectives/verifiable.h"

#include <ATen/ops/index_select.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <iterator>

#include "wmtp/core/error.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/tensor/profile_scope.h"
#include "wmtp/training/objectives/control_draws.h"

namespace wmtp::training {

Verifiable::Verifiable(PolicyViews policy, const ValueSources& values,
                       const VerifiableOptions& options, weighting::EmaTracker& ema,
                       comm::Communicator& group)
    : policy_(policy),
      sources_(values),
      options_(options),
      ema_(ema),
      group_(group),
      heads_(policy.trained.config().n_future, options.normalization) {
  weighting::check(options.td);
  weighting::check(options.weights);
}

void Verifiable::add_slots(TotalsLayout& layout) const {
  heads_.add_slots(layout);
  report_.add_slots(layout);
  layout.add("td", 3);         // Sx, Sxx, n before whitening
  layout.add("clipped");       // tokens beyond the bounds
  layout.add("value_mse", 2);  // sum of (v - R)^2, n
  layout.add("value_loss");
  layout.add("ema", 3);  // the tracker after the step; not a sum
}

bool Verifiable::has_targets(const StepFacts& facts) const {
  return any_target(facts);
}

std::vector<double> Verifiable::step_numbers(const StepFacts& facts) const {
  std::vector<double> numbers = value_numbers(facts, options_.lambda_schedule);
  std::ranges::copy(facts.head_targets, std::back_inserter(numbers));
  return numbers;
}

void Verifiable::prepare(std::span<DeviceBatch> batches) {
  in_validation_ = false;
  for (DeviceBatch& batch : batches) {
    if (!joint()) batch.value_N = frozen_values(batch);
    batch.drawn_N = drawn(batch);
  }
}

void Verifiable::begin_step(const StepFacts& facts, std::span<const DeviceBatch> batches) {
  in_validation_ = false;
  terms_ = value_terms(options_.value_loss, options_.lambda_schedule, facts);
  loss_scale_ = facts.loss_scale;
  report_.begin_step();
  ahead_.clear();
  if (weighs_ahead())
    heads_.set_scales(weight_totals(batches), facts.loss_scale);
  else if (facts.numbers.defined())
    heads_.set_scales(facts.numbers.narrow(0, kNumValueNumbers, heads_.num_heads()),
                      facts.loss_scale);
  else
    heads_.set_scales(target_counts(facts), facts.loss_scale);
}

// W_k over all micro-batches and ranks, on the device.
Tensor Verifiable::weight_totals(std::span<const DeviceBatch> batches) {
  const auto device = group_.device();
  const Tensor sums_H =
      at::zeros({heads_.num_heads()}, at::TensorOptions().dtype(at::kDouble).device(device));
  for (const DeviceBatch& batch : batches) {
    ahead_.push_back(weigh(frozen_values(batch), batch, nullptr));
    for (int head = 0; head < heads_.num_heads(); ++head) {
      const Tensor weight_M = at_targets(ahead_.back().weights_N, batch.model, head);
      sums_H.select(0, head).add_(weight_M.sum(at::kDouble));
    }
  }
  group_.all_reduce(sums_H, "weights").wait();
  return sums_H;
}

Tensor Verifiable::frozen_values(const DeviceBatch& batch) {
  if (options_.control == WeightControl::random) return {};
  if (batch.value_N.defined()) return batch.value_N;
  return sources_.model ? sources_.model->values(batch) : unread_signal(batch);
}

Tensor Verifiable::drawn(const DeviceBatch& batch) const {
  return batch.drawn_N.defined() ? batch.drawn_N
                                 : draw_control(options_, batch, in_validation_ ? 0 : batch.epoch);
}

Tensor Verifiable::shuffled(const Tensor& weights_N, const DeviceBatch& batch) const {
  return at::index_select(weights_N, 0, drawn(batch));
}

weighting::Whitening Verifiable::whitening(const Tensor& x_N, const DeviceBatch& batch) {
  switch (options_.whiten) {
    case Whiten::none:
      return {};
    case Whiten::ema:
      return weighting::ema_whitening(ema_.state_3());
    case Whiten::batch: {
      const Tensor sums_3 = weighting::masked_sums(x_N, batch.docs.mask_N);
      if (options_.scope_ranks) group_.all_reduce(sums_3, "whiten").wait();
      return weighting::batch_whitening(sums_3);
    }
  }
  WMTP_CHECK(false, "unknown whitening");
}

Verifiable::Weighed Verifiable::weigh(const Tensor& values_N, const DeviceBatch& batch,
                                      const weighting::Whitening* fixed) {
  const ProfileScope scope("signals");
  Weighed weighed;
  if (options_.control == WeightControl::random) {
    weighed.weights_N = drawn(batch);
    return weighed;
  }
  weighed.values_N = values_N.detach();
  weighed.x_N = weighting::td_error(options_.td, values_N, batch.docs);
  const auto found = weighting::token_weights(weighed.x_N, batch.docs.mask_N, options_.weights,
                                              fixed ? *fixed : whitening(weighed.x_N, batch));
  weighed.num_clipped = found.num_clipped;
  weighed.weights_N = options_.control == WeightControl::shuffled ? shuffled(found.weights_N, batch)
                                                                  : found.weights_N;
  return weighed;
}

void Verifiable::add_signal_sums(const Weighed& weighed, const DeviceBatch& batch, Totals& totals) {
  if (weighed.values_N.defined()) {
    totals["td"].add_(weighting::masked_sums(weighed.x_N, batch.docs.mask_N));
    totals["clipped"].add_(weighed.num_clipped);
    totals["value_mse"].add_(losses::value_mse_sums(weighed.values_N, batch.docs));
    totals["bad"].add_(weighting::bad_values(options_.td, weighed.values_N, batch.docs));
  }
  report_.add(weighed.weights_N, batch.docs.mask_N, totals);
}

WeighRows Verifiable::by_target(const Tensor& weights_N, const model::Batch& batch) {
  return [weights_N, &batch](int head, const Tensor&) -> RowWeights {
    return {at_targets(weights_N, batch, head), {}};
  };
}

void Verifiable::run(std::size_t index, const DeviceBatch& batch, Totals& totals) {
  Weighed weighed;
  if (!joint())
    weighed =
        weighs_ahead() ? std::move(ahead_[index]) : weigh(frozen_values(batch), batch, nullptr);
  model::TrunkPass trunk = policy_.trained.forward_trunk(batch.model);
  failpoint::pass("step.forward.mid");
  if (joint()) {
    ValuePath::Pass pass = sources_.joint->forward(trunk, batch.model);
    weighed = weigh(pass.values_N(), batch, nullptr);
    const losses::ValueLoss loss =
        losses::value_loss(terms_.loss, pass.values_N(), batch.docs, terms_.counts);
    totals["value_loss"].add_(loss.loss);
    totals["bad"].add_(loss.bad);
    sources_.joint->backward(
        trunk, std::move(pass), scaled(loss.dvalues_N, options_.value_coef, loss_scale_),
        options_.stop_gradient ? ValuePath::Reach::head : ValuePath::Reach::trunk);
  }
  add_signal_sums(weighed, batch, totals);
  heads_.run(policy_.trained, trunk, batch.model, by_target(weighed.weights_N, batch.model),
             heads_.num_heads(), totals);
  failpoint::pass("step.backward.mid");
  policy_.trained.backward_trunk(std::move(trunk), batch.model);
}

void Verifiable::end_step(Totals& totals, const Tensor& apply) {
  ema_.update(totals["td"], apply);
  totals["ema"].copy_(ema_.state_3());
}

void Verifiable::add_loss_metrics(const losses::MtpLoss& loss, std::string_view prefix,
                                  Metrics& metrics) const {
  const std::string of(prefix);
  metrics.emplace_back(of + "/weighted_ce_loss", loss.weighted);
  metrics.emplace_back(of + "/unweighted_ce_loss", loss.unweighted);
  HeadLosses::add_head_metrics(loss, prefix, metrics);
}

Numbers Verifiable::read(const StepFacts&, const HostTotals& totals) const {
  Numbers numbers;
  Metrics& metrics = numbers.metrics;
  if (const auto loss = heads_.read(totals)) {
    numbers.loss = loss->weighted;
    add_loss_metrics(*loss, "train", metrics);
    metrics.emplace_back("train/loss_ratio", loss->weighted / std::max(loss->unweighted, 1e-8));
  }
  if (joint()) {
    const double value_loss = totals.value("value_loss");
    numbers.loss += options_.value_coef * value_loss;
    metrics.emplace_back("train/value_loss", value_loss);
    metrics.emplace_back("train/total_loss", numbers.loss);
  }
  if (const auto spread = weighting::spread(totals.values("td"))) {
    metrics.emplace_back("td/mean", spread->mean);
    metrics.emplace_back("td/std", spread->std);
    const double count = totals.values("td")[2];
    metrics.emplace_back("weight/clipping_ratio", totals.value("clipped") / count);
    metrics.emplace_back("value/mse",
                         totals.values("value_mse")[0] / totals.values("value_mse")[1]);
    metrics.emplace_back("td/ema_mean", totals.values("ema")[0]);
    metrics.emplace_back("td/ema_std", totals.values("ema")[1]);
  }
  WeightReport::read(totals, metrics);
  return numbers;
}

void Verifiable::begin_evaluation(const StepFacts& facts) {
  in_validation_ = true;
  terms_ = validation_terms(options_.value_loss, facts);
  report_.begin_step();
  held_.clear();
}

void Verifiable::evaluate(const DeviceBatch& batch, Totals& totals) {
  Tensor values_N = joint() ? Tensor() : frozen_values(batch);
  const model::TrunkPass trunk = policy_.read.forward_trunk(batch.model);
  if (joint()) {
    values_N = sources_.joint_read->forward(trunk, batch.model).values_N();
    totals["value_loss"].add_(
        losses::value_loss(terms_.loss, values_N, batch.docs, terms_.counts).loss);
  }
  const bool needs_whole_set =
      options_.whiten == Whiten::batch && options_.control != WeightControl::random;
  const weighting::Whitening plain;
  const Weighed weighed = weigh(values_N, batch, needs_whole_set ? &plain : nullptr);
  add_signal_sums(weighed, batch, totals);
  if (!needs_whole_set) {
    heads_.evaluate(policy_.read, trunk, batch.model, by_target(weighed.weights_N, batch.model),
                    totals);
    return;
  }
  Held held{batch, weighed.x_N, {}};
  heads_.evaluate(
      policy_.read, trunk, batch.model,
      [&held](int, const Tensor& nll_M) -> RowWeights {
        held.nll_by_head.push_back(nll_M);
        return {};
      },
      totals);
  held_.push_back(std::move(held));
}

Numbers Verifiable::finish_evaluation(Totals& totals, comm::Communicator& group) {
  if (!held_.empty() || options_.whiten == Whiten::batch) {
    // Mean and deviation of the whole set first, then every weight.
    const Tensor sums_3 = totals["td"].clone();
    group.all_reduce(sums_3, "whiten").wait();
    const weighting::Whitening whole = weighting::batch_whitening(sums_3);
    for (int head = 0; head < heads_.num_heads(); ++head)
      if (!held_.empty()) totals[HeadLosses::slot(head)].zero_();
    for (const Held& held : held_) {
      const Tensor weights_N =
          weighting::token_weights(held.x_N, held.batch.docs.mask_N, options_.weights, whole)
              .weights_N;
      const Tensor used_N =
          options_.control == WeightControl::shuffled ? shuffled(weights_N, held.batch) : weights_N;
      const WeighRows weigh = by_target(used_N, held.batch.model);
      for (int head = 0; head < heads_.num_heads(); ++head) {
        const Tensor& nll_M = held.nll_by_head[static_cast<std::size_t>(head)];
        totals[HeadLosses::slot(head)].add_(losses::head_sums(nll_M, weigh(head, nll_M).weight_M));
      }
    }
    held_.clear();
  }
  totals.reduce(group, "validation");
  const HostTotals host = totals.read();
  Numbers numbers;
  if (const auto loss = heads_.read(host)) {
    numbers.loss = loss->unweighted;
    add_loss_metrics(*loss, "val", numbers.metrics);
  }
  if (joint()) numbers.metrics.emplace_back("val/value_loss", host.value("value_loss"));
  return numbers;
}

TokenMarks Verifiable::view(const DeviceBatch& batch) {
  Tensor values_N;
  if (joint()) {
    const model::TrunkPass trunk = policy_.read.forward_trunk(batch.model);
    values_N = sources_.joint_read->forward(trunk, batch.model).values_N();
  } else {
    values_N = frozen_values(batch);
  }
  const Weighed weighed = weigh(values_N, batch, nullptr);
  return {.weight_N = weighed.weights_N, .value_N = weighed.values_N, .selected_by_head_N = {}};
}

}  // namespace wmtp::training
