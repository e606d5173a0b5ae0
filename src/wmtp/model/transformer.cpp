#include "wmtp/model/transformer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/kernels/embedding.h"
#include "wmtp/kernels/gemm.h"
#include "wmtp/kernels/linear_cross_entropy.h"
#include "wmtp/kernels/rms_norm.h"
#include "wmtp/model/adapters.h"
#include "wmtp/model/float8_projection.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::model {
namespace {

constexpr UnitId kRoot{0};

// A head that predicts at every row needs no gather.
Tensor needed_rows(const HeadTargets& targets, std::int64_t num_tokens) {
  return targets.count() == num_tokens ? Tensor() : targets.rows_M;
}

}  // namespace

HeldRoot::HeldRoot(const ModelConfig& config, WeightAccess& access, GradSink* sink)
    : unit_(access, kRoot, sink ? Pass::backward : Pass::forward),
      params_(root_params(config, unit_.buffers(), sink ? sink->open(kRoot) : UnitGrad())) {}

Transformer::Transformer(const ModelConfig& config, WeightAccess& access, GradSink* sink,
                         const TransformerOptions& options)
    : config_(config),
      access_(access),
      sink_(sink),
      options_(options),
      block_(block_shape(config)),
      num_trunk_blocks_(config.num_trunk_blocks()) {
  if (options.float8 != kernels::Float8Recipe::off) check_float8_sizes(config, "float8");
}

std::string Transformer::block_name(UnitId unit) const {
  const std::int64_t block = unit.value() - 1;
  return block < config_.num_layers()
             ? fmt::format("model.layers.{}", block)
             : fmt::format("model.extra_heads.{}", block - config_.num_layers());
}

BlockParams Transformer::params_of(UnitId unit, const UnitBuffers& buffers, const UnitGrad& grad,
                                   const Batch& batch, const Tensor& rows_M) const {
  BlockParams params = block_params(config_, buffers, grad);
  for (Projection* projection : {&params.qkv, &params.o, &params.gate_up, &params.down})
    projection->float8 = options_.float8;
  if (options_.lora)
    attach_adapters({.config = &config_,
                     .lora = &*options_.lora,
                     .block = block_name(unit),
                     .buffers = buffers,
                     .grad = grad.flat,
                     .dropout = batch.dropout ? &*batch.dropout : nullptr,
                     .rows_M = rows_M},
                    params);
  return params;
}

Tensor Transformer::embed(const Batch& batch, TrunkPass& pass) {
  const ProfileScope scope("forward root");
  pass.root = std::make_unique<HeldRoot>(config_, access_, sink_);
  const Tensor& embedding_VD = pass.root->params().embedding_VD;
  Tensor base_ND = at::empty({batch.num_tokens(), config_.dim}, embedding_VD.options());
  kernels::embedding(batch.tokens_N, embedding_VD, base_ND);
  return base_ND;
}

TrunkPass Transformer::forward_trunk(const Batch& batch) {
  const ProfileScope phase("forward");
  TrunkPass pass;
  ResidualStream stream{embed(batch, pass), Tensor()};
  for (std::int64_t i = 0; i < num_trunk_blocks_; ++i) {
    const ProfileScope scope("forward layers.", i);
    const AcquiredUnit unit(access_, trunk_unit(i), Pass::forward);
    const BlockParams params = params_of(trunk_unit(i), unit.buffers(), {}, batch);
    BlockOutput out = block_.forward(params, stream, Tensor(), context(batch), options_.recompute,
                                     sink_ != nullptr);
    stream = std::move(out.stream);
    if (sink_) pass.blocks.push_back(std::move(out.kept));
  }
  pass.hidden_ND =
      stream.pending_ND.defined() ? stream.pending_ND.add_(stream.base_ND) : stream.base_ND;
  return pass;
}

HeadPass Transformer::forward_head(const TrunkPass& trunk, const Batch& batch, int head) {
  WMTP_CHECK(head >= 0 && head < config_.n_future, "no such prediction head");
  const ProfileScope scope("forward head ", head);
  const Tensor rows_M =
      needed_rows(batch.heads.at(static_cast<std::size_t>(head)), batch.num_tokens());
  HeadPass pass;
  pass.head = head;
  ResidualStream stream{trunk.hidden_ND, Tensor()};
  if (config_.n_future > 1) {
    pass.unit = std::make_unique<AcquiredUnit>(access_, head_unit(head),
                                               sink_ ? Pass::backward : Pass::forward);
    pass.params = params_of(head_unit(head), pass.unit->buffers(),
                            sink_ ? sink_->open(head_unit(head)) : UnitGrad(), batch, rows_M);
    // Its backward follows at once, so recomputing a head would save nothing.
    BlockOutput out = block_.forward(pass.params, stream, rows_M, context(batch), Recompute::none,
                                     sink_ != nullptr);
    stream = std::move(out.stream);
    pass.kept = std::move(out.kept);
  } else if (rows_M.defined()) {
    stream.base_ND = at::index_select(trunk.hidden_ND, 0, rows_M);
  }
  const bool adds = stream.pending_ND.defined();
  pass.stream_MD = adds ? stream.pending_ND : stream.base_ND;
  pass.normed_MD = at::empty_like(pass.stream_MD);
  const auto statistics = pass.stream_MD.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  pass.rstd_M = at::empty({pass.stream_MD.size(0)}, pass.stream_MD.options().dtype(statistics));
  kernels::rms_norm({.x_ND = stream.base_ND,
                     .delta_ND = stream.pending_ND,
                     .weight_D = trunk.root->params().norm.weight,
                     .eps = config_.norm_eps,
                     .sum_ND = adds ? pass.stream_MD : Tensor(),
                     .out_ND = pass.normed_MD,
                     .rstd_N = pass.rstd_M});
  return pass;
}

Tensor Transformer::nll(const TrunkPass& trunk, const HeadPass& pass, const Batch& batch) const {
  const ProfileScope scope("forward loss of head ", pass.head);
  return kernels::nll({.hidden_ND = pass.normed_MD,
                       .weight_VD = trunk.root->params().unembedding.weight_OI,
                       .rows_M = {},
                       .targets_M = batch.heads[static_cast<std::size_t>(pass.head)].targets_M,
                       .chunk_rows = options_.loss_chunk_rows});
}

Tensor Transformer::backward_head(TrunkPass& trunk, HeadPass pass, const Batch& batch,
                                  const Tensor& scale_M, const Tensor& selected_C) {
  const ProfileScope scope("backward head ", pass.head);
  const RootParams& root = trunk.root->params();
  const HeadTargets& targets = batch.heads[static_cast<std::size_t>(pass.head)];
  const Tensor dnormed_MD = at::empty_like(pass.normed_MD);
  const Tensor nll_M = kernels::nll_and_grad(
      {.hidden_ND = pass.normed_MD,
       .weight_VD = root.unembedding.weight_OI,
       .rows_M = selected_C,
       .targets_M = selected_C.defined() ? at::index_select(targets.targets_M, 0, selected_C)
                                         : targets.targets_M,
       .chunk_rows = options_.loss_chunk_rows},
      {.scale_M = scale_M, .dhidden_ND = dnormed_MD, .dweight_VD = root.unembedding.dweight_OI});
  Tensor dstream_MD = at::zeros_like(pass.stream_MD);
  kernels::rms_norm_backward({.dout_ND = dnormed_MD,
                              .x_ND = pass.stream_MD,
                              .rstd_N = pass.rstd_M,
                              .weight_D = root.norm.weight,
                              .dx_ND = dstream_MD,
                              .dweight_D = root.norm.dweight});
  Tensor dhidden_ND = dstream_MD;
  if (pass.unit) {
    dhidden_ND = block_.backward(pass.params, std::move(pass.kept), dstream_MD, context(batch),
                                 Recompute::none);
    sink_->close(head_unit(pass.head));
  } else if (const Tensor rows_M = needed_rows(targets, batch.num_tokens()); rows_M.defined()) {
    dhidden_ND = at::zeros_like(trunk.hidden_ND).index_copy_(0, rows_M.to(at::kLong), dstream_MD);
  }
  trunk.dhidden_ND = trunk.dhidden_ND.defined() ? trunk.dhidden_ND.add_(dhidden_ND) : dhidden_ND;
  return nll_M;
}

void Transformer::backward_trunk(TrunkPass trunk, const Batch& batch) {
  WMTP_CHECK(sink_ && trunk.dhidden_ND.defined(),
             "the trunk's backward needs a gradient from its heads");
  const ProfileScope phase("backward");
  trunk.hidden_ND = Tensor();
  Tensor dx_ND = std::move(trunk.dhidden_ND);
  for (std::int64_t i = num_trunk_blocks_ - 1; i >= 0; --i) {
    const ProfileScope scope("backward layers.", i);
    const AcquiredUnit unit(access_, trunk_unit(i), Pass::backward);
    const BlockParams params =
        params_of(trunk_unit(i), unit.buffers(), sink_->open(trunk_unit(i)), batch);
    dx_ND = block_.backward(params, std::move(trunk.blocks.back()), dx_ND, context(batch),
                            options_.recompute);
    trunk.blocks.pop_back();
    sink_->close(trunk_unit(i));
  }
  const ProfileScope scope("backward root");
  if (const Tensor& dembedding_VD = trunk.root->params().dembedding_VD; dembedding_VD.defined())
    kernels::embedding_backward(batch.tokens_N, dx_ND, dembedding_VD);
  sink_->close(kRoot);
}

Tensor Transformer::logits(const TrunkPass& trunk, const HeadPass& pass) const {
  return forward(trunk.root->params().unembedding, pass.normed_MD);
}

}  // namespace wmtp::model
