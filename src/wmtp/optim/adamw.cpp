#include "wmtp/optim/adamw.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/core/rng.h"
#include "wmtp/kernels/adamw.h"

namespace wmtp::optim {

AdamW::AdamW(std::vector<TrainedShard> shards, ParamGroups groups, const AdamWSettings& settings)
    : shards_(std::move(shards)), groups_(std::move(groups)), settings_(settings) {
  WMTP_CHECK(!shards_.empty(), "there is nothing to train");
  for (const TrainedShard& shard : shards_) {
    WMTP_CHECK(shard.master.scalar_type() != kBFloat16 || settings_.recipe == Recipe::bf16_sr,
               "a bf16 master without stochastic rounding");
    ranges_.push_back(group_ranges(shard.plan, shard.rank, groups_));
    exp_avg_.push_back(at::zeros_like(shard.master));
    exp_avg_sq_.push_back(at::zeros_like(shard.master));
    streams_.push_back(stream_id("round/" + shard.plan.params().front().name));
  }
  applied_steps_ =
      at::zeros({}, shards_.front().master.options().dtype(at::kLong).pinned_memory(false));
}

void AdamW::apply(const UpdateControl& control, const std::function<void(UnitId)>& updated) {
  UpdateControl here = control;
  const c10::Device device = applied_steps_.device();
  here.grad_scale = control.grad_scale.to(device);
  here.apply = control.apply.to(device);
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    for (const GroupRange& range : ranges_[i]) update(i, range, here);
    if (updated) updated(shards_[i].unit);
  }
  applied_steps_.add_(here.apply.to(at::kLong));
}

void AdamW::update(std::size_t index, const GroupRange& range, const UpdateControl& control) {
  const TrainedShard& shard = shards_[index];
  const GroupSettings& group = groups_.groups.at(range.group);
  auto part = [&](const Tensor& flat) {
    return flat.defined() ? flat.narrow(0, range.in_shard.begin, range.in_shard.size()) : Tensor();
  };
  kernels::adamw({.param = part(shard.master),
                  .grad = part(shard.grad),
                  .exp_avg = part(exp_avg_[index]),
                  .exp_avg_sq = part(exp_avg_sq_[index]),
                  .compute_copy = part(shard.compute_copy),
                  .learning_rate = std::max(group.learning_rate * control.schedule_factor,
                                            control.min_learning_rate),
                  .beta1 = settings_.beta1,
                  .beta2 = settings_.beta2,
                  .eps = settings_.eps,
                  .weight_decay = range.decays ? group.weight_decay : 0,
                  .grad_scale = control.grad_scale,
                  .applied_steps = applied_steps_,
                  .apply = control.apply,
                  .rounding = {.seed = settings_.rounding_seed,
                               .stream = streams_[index],
                               .first_element =
                                   shard.rank * shard.plan.shard_numel() + range.in_shard.begin}});
}

std::int64_t AdamW::state_bytes() const {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < shards_.size(); ++i)
    bytes += static_cast<std::int64_t>(exp_avg_[i].nbytes() + exp_avg_sq_[i].nbytes());
  return bytes;
}

}  // namespace wmtp::optim
