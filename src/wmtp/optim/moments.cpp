#include "wmtp/optim/moments.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "wmtp/core/error.h"

namespace wmtp::optim {

using kernels::kCodeBlock;
using kernels::num_code_blocks;

std::int64_t num_quantized(const std::vector<layout::ParamSpec>& trained,
                           const MomentRules& rules) {
  std::int64_t sum = 0;
  if (rules.recipe != Recipe::int8 || !rules.is_block || rules.full_precision) return sum;
  for (const layout::ParamSpec& param : trained) {
    if (param.shape.size() < 2) break;
    sum += param.numel();
  }
  return sum;
}

DType wide_dtype(const MomentRules& rules) {
  const bool as_master = rules.recipe == Recipe::fp32 || rules.full_precision;
  return as_master ? rules.master : kBFloat16;
}

MomentLayout moment_layout(const layout::BucketPlan& plan, int rank, const MomentRules& rules) {
  const std::int64_t shard = plan.shard_numel();
  const std::int64_t before = num_quantized(plan.params(), rules) - rank * shard;
  const std::int64_t quantized = std::clamp<std::int64_t>(before, 0, shard);
  WMTP_CHECK(quantized == 0 || plan.alignment() % kCodeBlock == 0,
             "8-bit moments in shards that are cut inside of blocks");
  return {quantized, shard - quantized, wide_dtype(rules)};
}

std::int64_t MomentLayout::bytes() const {
  const std::int64_t one = quantized + 4 * num_code_blocks(quantized) +
                           wide * static_cast<std::int64_t>(element_bytes(dtype));
  return 2 * one;
}

ShardMoments::ShardMoments(const MomentLayout& layout, const at::TensorOptions& options)
    : layout_(layout) {
  for (const Moment moment : kMoments) {
    Kept& kept = kept_[static_cast<std::size_t>(moment)];
    if (layout.quantized > 0) {
      kept.codes =
          at::full({layout.quantized}, kernels::zero_code(moment), options.dtype(at::kByte));
      kept.scales = at::zeros({num_code_blocks(layout.quantized)}, options.dtype(kFloat32));
    }
    if (layout.wide > 0) kept.numbers = at::zeros({layout.wide}, options.dtype(layout.dtype));
  }
}

ShardMoments::View ShardMoments::view(Moment moment, layout::Range in_shard) const {
  const Kept& kept = kept_[static_cast<std::size_t>(moment)];
  if (!is_quantized(in_shard.begin))
    return {kept.numbers.narrow(0, in_shard.begin - layout_.quantized, in_shard.size()), Tensor()};
  WMTP_CHECK(in_shard.end <= layout_.quantized, "a range of moments that are kept in two ways");
  const std::int64_t block = in_shard.begin / kCodeBlock;
  return {kept.codes.narrow(0, in_shard.begin, in_shard.size()),
          kept.scales.narrow(0, block, num_code_blocks(in_shard.end) - block)};
}

std::vector<Tensor> ShardMoments::tensors() const {
  std::vector<Tensor> all;
  for (const Kept& kept : kept_)
    for (const Tensor& one : {kept.codes, kept.scales, kept.numbers})
      if (one.defined()) all.push_back(one);
  return all;
}

}  // namespace wmtp::optim
