#include "wmtp/training/value_path.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "wmtp/kernels/rms_norm.h"
#include "wmtp/model/dropout_mask.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::training {

ValuePath::ValuePath(const model::ModelConfig& config, UnitId unit, model::WeightAccess& access,
                     model::GradSink* sink, const ValuePathOptions& options)
    : unit_(unit),
      access_(access),
      sink_(sink),
      norm_eps_(config.norm_eps),
      options_(options),
      head_(options.type, config.dim),
      num_hidden_(options.type == model::ValueHeadType::mlp ? 2 : 0) {}

ValuePath::Pass ValuePath::forward(const model::TrunkPass& trunk, const model::Batch& batch) {
  const ProfileScope scope("forward value head");
  const Tensor& hidden_ND = trunk.hidden_ND;
  const bool is_double = hidden_ND.scalar_type() == at::kDouble;
  const auto precision = is_double ? at::kDouble : at::kFloat;
  Pass pass;
  pass.normed_ND = at::empty_like(hidden_ND);
  pass.rstd_N = at::empty({hidden_ND.size(0)}, hidden_ND.options().dtype(precision));
  kernels::rms_norm({.x_ND = hidden_ND,
                     .delta_ND = {},
                     .weight_D = trunk.root->params().norm.weight,
                     .eps = norm_eps_,
                     .sum_ND = {},
                     .out_ND = pass.normed_ND,
                     .rstd_N = pass.rstd_N});
  std::vector<std::optional<kernels::DropoutMask>> masks;
  if (batch.dropout)
    for (const std::string& site : dropout_sites())
      masks.emplace_back(model::draw_mask(*batch.dropout, options_.dropout, site));
  pass.unit = std::make_unique<model::AcquiredUnit>(
      access_, unit_, sink_ ? model::Pass::backward : model::Pass::forward);
  const model::UnitBuffers& weights = pass.unit->buffers();
  pass.head = head_.forward(weights.trained.defined() ? weights.trained : weights.frozen,
                            pass.normed_ND.to(precision), std::move(masks));
  return pass;
}

std::vector<std::string> ValuePath::dropout_sites() const {
  std::vector<std::string> sites;
  if (options_.dropout > 0)
    for (int layer = 0; layer < num_hidden_; ++layer)
      sites.push_back(fmt::format("value_head.dropout.{}", layer));
  return sites;
}

void ValuePath::backward(model::TrunkPass& trunk, Pass pass, const Tensor& dvalues_N, Reach reach) {
  const ProfileScope scope("backward value head");
  const model::UnitGrad opened = sink_->open(unit_);
  const Tensor& grads = opened.flat;
  if (opened.fresh) grads.zero_();
  const Tensor du_ND = head_.backward(pass.unit->buffers().trained, grads, pass.head, dvalues_N);
  if (options_.freeze_last_bias) grads.narrow(0, grads.size(0) - 1, 1).zero_();
  sink_->close(unit_);
  if (reach == Reach::head) return;
  const model::NormWeight& norm = trunk.root->params().norm;
  if (!trunk.dhidden_ND.defined()) trunk.dhidden_ND = at::zeros_like(trunk.hidden_ND);
  kernels::rms_norm_backward({.dout_ND = du_ND.to(trunk.hidden_ND.scalar_type()),
                              .x_ND = trunk.hidden_ND,
                              .rstd_N = pass.rstd_N,
                              .weight_D = norm.weight,
                              .dx_ND = trunk.dhidden_ND,
                              .dweight_D = norm.dweight});
}

Tensor scaled(const Tensor& dvalues_N, double coef, const Tensor& loss_scale) {
  Tensor gradient_N = dvalues_N.mul(coef);
  return loss_scale.defined() ? gradient_N.mul_(loss_scale) : gradient_N;
}

}  // namespace wmtp::training
