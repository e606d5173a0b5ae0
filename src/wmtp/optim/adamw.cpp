#include "wmtp/optim/adamw.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/kernels/adamw.h"

namespace wmtp::optim {

AdamW::AdamW(std::vector<TrainedShard> shards, ParamGroups groups, const AdamWSettings& settings)
    : shards_(std::move(shards)), groups_(std::move(groups)), settings_(settings) {
  WMTP_CHECK(!shards_.empty(), "there is nothing to train");
  for (const TrainedShard& shard : shards_) {
    ranges_.push_back(group_ranges(shard.plan, shard.rank, groups_));
    exp_avg_.push_back(at::zeros_like(shard.master));
    exp_avg_sq_.push_back(at::zeros_like(shard.master));
  }
  applied_steps_ =
      at::zeros({}, shards_.front().master.options().dtype(at::kLong).pinned_memory(false));
}

void AdamW::apply(const UpdateControl& control) {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    for (const GroupRange& range : ranges_[i]) {
      const GroupSettings& group = groups_.groups.at(range.group);
      auto part = [&](const Tensor& flat) {
        return flat.defined() ? flat.narrow(0, range.in_shard.begin, range.in_shard.size())
                              : Tensor();
      };
      kernels::adamw({.param = part(shards_[i].master),
                      .grad = part(shards_[i].grad),
                      .exp_avg = part(exp_avg_[i]),
                      .exp_avg_sq = part(exp_avg_sq_[i]),
                      .compute_copy = part(shards_[i].compute_copy),
                      .learning_rate = std::max(group.learning_rate * control.schedule_factor,
                                                control.min_learning_rate),
                      .beta1 = settings_.beta1,
                      .beta2 = settings_.beta2,
                      .eps = settings_.eps,
                      .weight_decay = range.decays ? group.weight_decay : 0,
                      .grad_scale = control.grad_scale,
                      .applied_steps = applied_steps_,
                      .apply = control.apply});
    }
  }
  applied_steps_.add_(control.apply.to(at::kLong));
}

std::int64_t AdamW::state_bytes() const {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < shards_.size(); ++i)
    bytes += static_cast<std::int64_t>(exp_avg_[i].nbytes() + exp_avg_sq_[i].nbytes());
  return bytes;
}

}  // namespace wmtp::optim
