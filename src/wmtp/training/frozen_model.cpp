#include "wmtp/training/frozen_model.h"

#include <ATen/ops/zeros.h>

#include "wmtp/core/error.h"
#include "wmtp/model/weight_names.h"
#include "wmtp/models/rope_frequencies.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::training {
namespace {

using Use = FrozenModelOptions::Use;

parallel::ParallelOptions parallel_options(const FrozenModelOptions& options) {
  parallel::ParallelOptions parallel;
  parallel.strategy = options.shard ? parallel::Strategy::full_shard : parallel::Strategy::no_shard;
  if (options.shard && options.shard_group_size > 0) {
    parallel.strategy = parallel::Strategy::hybrid_shard;
    parallel.shard_group_size = options.shard_group_size;
  }
  parallel.param_dtype = options.dtype;
  parallel.frozen_dtype = options.stored_dtype;
  parallel.device = options.device;
  return parallel;
}

}  // namespace

model::ModelConfig frozen_config(const models::ModelSource& source, Use use) {
  return use == Use::values ? model::backbone(source.config)
                            : model::next_token_model(source.config);
}

std::vector<layout::UnitSpec> frozen_units(const models::ModelSource& source, Use use,
                                           bool quantize) {
  const model::ModelConfig config = frozen_config(source, use);
  std::vector<layout::UnitSpec> units = model::model_units(config);
  if (use == Use::values) {
    if (!source.value_head)
      throw Error(ErrorKind::config, "model", "the value model has no value head",
                  "name the `final` folder of a critic run, or one of its checkpoints");
    units.push_back(model::value_head_unit(*source.value_head, config.dim));
  }
  for (layout::UnitSpec& unit : units)
    for (layout::ParamSpec& param : unit.params) param.trained = false;
  if (quantize) model::quantize_projections(units);
  return units;
}

FrozenModel::FrozenModel(const models::ModelSource& source, const FrozenModelOptions& options,
                         const parallel::Groups& groups)
    : config_(frozen_config(source, options.use)),
      runtime_(frozen_units(source, options.use, options.quantize), parallel_options(options),
               groups),
      access_(runtime_),
      transformer_(config_, access_, nullptr,
                   {.recompute = model::Recompute::none,
                    .attention = options.attention,
                    .loss_chunk_rows = options.loss_chunk_rows}),
      inv_freq_F_(models::rope_frequencies(config_, kFloat32, options.device)) {
  if (options.use == Use::values)
    value_.emplace(config_, UnitId(static_cast<int>(1 + config_.num_blocks)), access_, nullptr,
                   ValuePathOptions{.type = *source.value_head});
  runtime_.fill(source.fill, source.stored_nf4);
}

Tensor FrozenModel::next_token_nll(const DeviceBatch& batch) {
  const ProfileScope scope("signals");
  const model::Batch own = batch_for(batch, 1, inv_freq_F_);
  runtime_.begin_evaluation();
  const model::TrunkPass trunk = transformer_.forward_trunk(own);
  const model::HeadPass pass = transformer_.forward_head(trunk, own, 0);
  const Tensor nll_M = transformer_.nll(trunk, pass, own);
  const Tensor nll_N = at::zeros({own.num_tokens()}, nll_M.options())
                           .index_copy_(0, own.heads[0].rows_M.to(at::kLong).add(1), nll_M);
  if (observer_) observer_(batch, nll_N);
  return nll_N;
}

Tensor FrozenModel::values(const DeviceBatch& batch) {
  const ProfileScope scope("signals");
  const model::Batch own = batch_for(batch, 0, inv_freq_F_);
  runtime_.begin_evaluation();
  const model::TrunkPass trunk = transformer_.forward_trunk(own);
  const Tensor values_N = value_->forward(trunk, own).values_N();
  if (observer_) observer_(batch, values_N);
  return values_N;
}

}  // namespace wmtp::training
