#include "wmtp/optim/adamw.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/core/rng.h"
#include "wmtp/kernels/adamw.h"

namespace wmtp::optim {

namespace {

// The ranges of groups, cut where the moments come to be kept in another way.
std::vector<GroupRange> update_ranges(const TrainedShard& shard, const ParamGroups& groups,
                                      const MomentLayout& layout) {
  std::vector<GroupRange> ranges;
  for (const GroupRange& range : group_ranges(shard.plan, shard.rank, groups)) {
    GroupRange first = range, second = range;
    first.in_shard.end = std::min(range.in_shard.end, layout.quantized);
    second.in_shard.begin = std::max(range.in_shard.begin, layout.quantized);
    for (const GroupRange& part : {first, second})
      if (!part.in_shard.empty()) ranges.push_back(part);
  }
  for (const GroupRange& range : ranges)
    WMTP_CHECK(
        range.in_shard.begin >= layout.quantized || range.in_shard.begin % kernels::kCodeBlock == 0,
        "a block of 8-bit moments in two groups");
  return ranges;
}

}  // namespace

AdamW::AdamW(std::vector<TrainedShard> shards, ParamGroups groups, const AdamWSettings& settings)
    : shards_(std::move(shards)), groups_(std::move(groups)), settings_(settings) {
  WMTP_CHECK(!shards_.empty(), "there is nothing to train");
  for (const TrainedShard& shard : shards_) {
    const DType master = shard.master_lower.defined() ? kFloat32 : shard.master.scalar_type();
    WMTP_CHECK(master != kBFloat16 || master_dtype(settings_.recipe) == kBFloat16,
               "a bf16 master without stochastic rounding");
    const MomentLayout layout = moment_layout(
        shard.plan, shard.rank, {settings_.recipe, shard.is_block, shard.full_precision, master});
    ranges_.push_back(update_ranges(shard, groups_, layout));
    moments_.emplace_back(layout, shard.master.options());
    streams_.push_back(stream_id("round/" + shard.plan.params().front().name));
  }
  applied_steps_ =
      at::zeros({}, shards_.front().master.options().dtype(at::kLong).pinned_memory(false));
}

// The count of steps is a new tensor each time: updates on another stream still read the old one.
void AdamW::apply(const UpdateControl& control, const UpdateUnit& update_unit) {
  const c10::Device device = applied_steps_.device();
  in_use_ = control;
  in_use_.grad_scale = control.grad_scale.to(device);
  in_use_.apply = control.apply.to(device);
  steps_in_use_ = applied_steps_;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const auto update_shard = [&] {
      for (const GroupRange& range : ranges_[i]) update(i, range);
    };
    if (update_unit)
      update_unit(shards_[i].unit, update_shard);
    else
      update_shard();
  }
  applied_steps_ = steps_in_use_.add(in_use_.apply.to(at::kLong));
}

void AdamW::update(std::size_t index, const GroupRange& range) {
  const TrainedShard& shard = shards_[index];
  const GroupSettings& group = groups_.groups.at(range.group);
  auto part = [&](const Tensor& flat) {
    return flat.defined() ? flat.narrow(0, range.in_shard.begin, range.in_shard.size()) : Tensor();
  };
  const ShardMoments::View first = moments_[index].view(Moment::first, range.in_shard);
  const ShardMoments::View second = moments_[index].view(Moment::second, range.in_shard);
  kernels::adamw({.param = part(shard.master),
                  .param_lower = part(shard.master_lower),
                  .grad = part(shard.grad),
                  .exp_avg = first.values,
                  .exp_avg_sq = second.values,
                  .exp_avg_scales = first.scales,
                  .exp_avg_sq_scales = second.scales,
                  .compute_copy = part(shard.compute_copy),
                  .learning_rate = std::max(group.learning_rate * in_use_.schedule_factor,
                                            in_use_.min_learning_rate),
                  .beta1 = settings_.beta1,
                  .beta2 = settings_.beta2,
                  .eps = settings_.eps,
                  .weight_decay = range.decays ? group.weight_decay : 0,
                  .grad_scale = in_use_.grad_scale,
                  .applied_steps = steps_in_use_,
                  .apply = in_use_.apply,
                  .rounding = {.seed = settings_.rounding_seed,
                               .stream = streams_[index],
                               .first_element =
                                   shard.rank * shard.plan.shard_numel() + range.in_shard.begin}});
}

std::int64_t AdamW::state_bytes() const {
  std::int64_t bytes = 0;
  for (const ShardMoments& moments : moments_) bytes += moments.layout().bytes();
  return bytes;
}

}  // namespace wmtp::optim
