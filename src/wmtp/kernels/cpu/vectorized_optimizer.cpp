// Ops over flat ranges: the optimizer's.
#include "wmtp/kernels/cpu/fast.h"
#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/simd/table.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::kernels::cpu::fast {
namespace {

constexpr std::int64_t kNormBlock = 65536;

const Bf16Bits* bits_of(const Tensor& tensor) {
  return static_cast<const Bf16Bits*>(tensor.const_data_ptr());
}

std::uint16_t* halves_of(const Tensor& plane) {
  return static_cast<std::uint16_t*>(plane.mutable_data_ptr());
}

double squared_norm_of_block(const Tensor& flat, std::int64_t block) {
  const std::int64_t first = block * kNormBlock, size = std::min(kNormBlock, flat.numel() - first);
  if (flat.scalar_type() == kBFloat16)
    return simd_kernels().squared_norm_bf16(bits_of(flat) + first, size);
  return simd_kernels().squared_norm(flat.const_data_ptr<float>() + first, size);
}

}  // namespace

void adamw(const AdamW& args) {
  if (*args.apply.data_ptr<std::int32_t>() == 0) return;
  const auto j = static_cast<double>(*args.applied_steps.data_ptr<std::int64_t>() + 1);
  const bool half_grad = args.grad.scalar_type() == kBFloat16;
  const bool in_planes = args.param_lower.defined(), has_copy = args.compute_copy.defined();
  const bool half_copy = has_copy && args.compute_copy.scalar_type() == kBFloat16;
  AdamWRange range{};
  if (!in_planes) range.param = args.param.data_ptr<float>();
  if (in_planes) range.upper = halves_of(args.param), range.lower = halves_of(args.param_lower);
  range.exp_avg = args.exp_avg.data_ptr<float>();
  range.exp_avg_sq = args.exp_avg_sq.data_ptr<float>();
  if (half_grad) range.grad_bf16 = bits_of(args.grad);
  if (!half_grad) range.grad = args.grad.data_ptr<float>();
  if (half_copy) range.upper = halves_of(args.compute_copy);
  if (has_copy && !half_copy) range.copy = args.compute_copy.data_ptr<float>();
  range.beta1 = static_cast<float>(args.beta1);
  range.beta2 = static_cast<float>(args.beta2);
  range.keep = static_cast<float>(1 - args.learning_rate * args.weight_decay);
  range.rate = static_cast<float>(args.learning_rate / (1 - std::pow(args.beta1, j)));
  range.correction2 = static_cast<float>(1 / (1 - std::pow(args.beta2, j)));
  range.eps = static_cast<float>(args.eps);
  range.grad_scale = *args.grad_scale.data_ptr<float>();
  parallel_for(args.param.numel(), 32768, [&](std::int64_t begin, std::int64_t end) {
    simd_kernels().adamw(range, begin, end);
  });
}

void add_squared_norm(const Tensor& flat, const Tensor& out) {
  const std::int64_t num_blocks = (flat.numel() + kNormBlock - 1) / kNormBlock;
  std::vector<double> sums(num_blocks);
  parallel_for(num_blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) sums[b] = squared_norm_of_block(flat, b);
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  *out.data_ptr<double>() += total;
}

}  // namespace wmtp::kernels::cpu::fast
