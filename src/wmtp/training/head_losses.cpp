#include "wmtp/training/head_losses.h"

#include <ATen/ops/index_select.h>
#include <ATen/ops/ones_like.h>
#include <fmt/format.h>

#include <algorithm>

#include "wmtp/tensor/profile_scope.h"

namespace wmtp::training {

RowWeights uniform_rows(int, const Tensor&) {
  return {};
}

Tensor at_targets(const Tensor& values_N, const model::Batch& batch, int head) {
  const model::HeadTargets& targets = batch.heads[static_cast<std::size_t>(head)];
  return losses::target_weights(values_N, targets.rows_M, head + 1, targets.present_M);
}

std::string HeadLosses::slot(int head) {
  return fmt::format("head{}", head);
}

void HeadLosses::add_slots(TotalsLayout& layout) const {
  for (int head = 0; head < num_heads_; ++head) layout.add(slot(head), losses::kNumHeadSums);
}

void HeadLosses::set_scales(std::span<const double> normalizers, const Tensor& loss_scale) {
  scales_ = losses::head_scales(normalizers, normalization_);
  loss_scale_ = loss_scale;
  device_scales_H_ = Tensor();
}

void HeadLosses::set_scales(const Tensor& normalizers_H, const Tensor& loss_scale) {
  device_scales_H_ = losses::head_scales(normalizers_H, normalization_);
  loss_scale_ = loss_scale;
}

Tensor HeadLosses::scale_of(int head, const Tensor& weight_M) const {
  Tensor scale_M = device_scales_H_.defined()
                       ? losses::row_scales(weight_M, device_scales_H_.select(0, head))
                       : losses::row_scales(weight_M, scales_.at(static_cast<std::size_t>(head)));
  return loss_scale_.defined() ? scale_M.mul_(loss_scale_) : scale_M;
}

void HeadLosses::run(model::Transformer& model, model::TrunkPass& trunk, const model::Batch& batch,
                     const WeighRows& weigh, int first_selected, Totals& totals,
                     const SeeRows& see) {
  for (int head = 0; head < num_heads_; ++head) {
    const ProfileScope scope("loss head ", head);
    model::HeadPass pass = model.forward_head(trunk, batch, head);
    const bool selects = head >= first_selected;
    Tensor nll_M = selects ? model.nll(trunk, pass, batch) : Tensor();
    const RowWeights rows = weigh(head, nll_M);
    const Tensor& present_M = batch.heads[static_cast<std::size_t>(head)].present_M;
    Tensor weight_M = rows.weight_M.defined() ? rows.weight_M : at::ones_like(pass.rstd_M);
    if (present_M.defined()) weight_M = weight_M.mul(present_M);
    if (rows.selected_C.defined()) weight_M = at::index_select(weight_M, 0, rows.selected_C);
    const Tensor found = model.backward_head(trunk, std::move(pass), batch,
                                             scale_of(head, weight_M), rows.selected_C);
    if (!selects) nll_M = found;
    totals[slot(head)].add_(losses::head_sums(nll_M, rows.weight_M, present_M));
    if (see) see(head, nll_M, rows);
  }
}

void HeadLosses::evaluate(model::Transformer& model, const model::TrunkPass& trunk,
                          const model::Batch& batch, const WeighRows& weigh, Totals& totals) {
  for (int head = 0; head < num_heads_; ++head) {
    const model::HeadPass pass = model.forward_head(trunk, batch, head);
    const Tensor nll_M = model.nll(trunk, pass, batch);
    totals[slot(head)].add_(losses::head_sums(
        nll_M, weigh(head, nll_M).weight_M, batch.heads[static_cast<std::size_t>(head)].present_M));
  }
}

std::optional<losses::MtpLoss> HeadLosses::read(const HostTotals& totals) const {
  std::vector<double> sums;
  for (int head = 0; head < num_heads_; ++head) {
    const auto part = totals.values(slot(head));
    sums.insert(sums.end(), part.begin(), part.end());
  }
  return losses::mtp_loss(sums, normalization_);
}

void HeadLosses::add_head_metrics(const losses::MtpLoss& loss, std::string_view prefix,
                                  Metrics& metrics) {
  for (std::size_t head = 0; head < loss.head_losses.size(); ++head)
    if (loss.head_losses[head])
      metrics.emplace_back(fmt::format("{}/head{}_loss", prefix, head), *loss.head_losses[head]);
}

}  // namespace wmtp::training
