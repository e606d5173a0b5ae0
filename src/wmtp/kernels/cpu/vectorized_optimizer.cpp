// Ops over flat ranges: the optimizer's.
#include "wmtp/kernels/codes/planes.h"
#include "wmtp/kernels/cpu/adamw_factors.h"
#include "wmtp/kernels/cpu/code_table.h"
#include "wmtp/kernels/cpu/fast.h"
#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/simd/table.h"
#include "wmtp/kernels/cpu/stochastic_rounding.h"
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

AdamWScalars scalars_of(const AdamW& args) {
  const AdamWFactors<float> f(args);
  return {f.beta1, f.beta2, f.keep, f.rate, f.correction2, f.eps, f.grad_scale};
}

RoundedMaster master_of(const AdamW& args) {
  RoundedMaster master{};
  static_cast<AdamWScalars&>(master) = scalars_of(args);
  if (args.param_lower.defined())
    master.upper = halves_of(args.param), master.lower = halves_of(args.param_lower);
  else if (args.param.scalar_type() == kBFloat16)
    master.param_bf16 = halves_of(args.param);
  else
    master.param = args.param.data_ptr<float>();
  if (args.grad.scalar_type() == kBFloat16)
    master.grad_bf16 = bits_of(args.grad);
  else
    master.grad = args.grad.data_ptr<float>();
  master.seed = args.rounding.seed;
  master.stream = rounding_stream(args);
  master.first_element = static_cast<std::uint64_t>(args.rounding.first_element);
  return master;
}

CodedMoment coded(Moment moment, const Tensor& codes, const Tensor& scales) {
  return {codes.data_ptr<std::uint8_t>(), scales.data_ptr<float>(), &code_table(moment)};
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
  const bool half_grad = args.grad.scalar_type() == kBFloat16;
  const bool in_planes = args.param_lower.defined(), has_copy = args.compute_copy.defined();
  const bool half_copy = has_copy && args.compute_copy.scalar_type() == kBFloat16;
  AdamWRange range{};
  static_cast<AdamWScalars&>(range) = scalars_of(args);
  if (!in_planes) range.param = args.param.data_ptr<float>();
  if (in_planes) range.upper = halves_of(args.param), range.lower = halves_of(args.param_lower);
  range.exp_avg = args.exp_avg.data_ptr<float>();
  range.exp_avg_sq = args.exp_avg_sq.data_ptr<float>();
  if (half_grad) range.grad_bf16 = bits_of(args.grad);
  if (!half_grad) range.grad = args.grad.data_ptr<float>();
  if (half_copy) range.upper = halves_of(args.compute_copy);
  if (has_copy && !half_copy) range.copy = args.compute_copy.data_ptr<float>();
  parallel_for(args.param.numel(), 32768, [&](std::int64_t begin, std::int64_t end) {
    simd_kernels().adamw(range, begin, end);
  });
}

void adamw_rounded(const AdamW& args) {
  if (*args.apply.data_ptr<std::int32_t>() == 0) return;
  const RoundedRange range{master_of(args), halves_of(args.exp_avg), halves_of(args.exp_avg_sq)};
  parallel_for(args.param.numel(), 32768, [&](std::int64_t begin, std::int64_t end) {
    simd_kernels().adamw_rounded(range, begin, end);
  });
  if (args.compute_copy.defined()) round_to_compute(args.param, args.compute_copy);
}

void adamw_8bit(const AdamW& args) {
  if (*args.apply.data_ptr<std::int32_t>() == 0) return;
  static_assert(kElementsOfACodeBlock == kCodeBlock);
  const std::int64_t size = args.param.numel();
  const CodedRange range{master_of(args), coded(Moment::first, args.exp_avg, args.exp_avg_scales),
                         coded(Moment::second, args.exp_avg_sq, args.exp_avg_sq_scales), size};
  parallel_for(
      num_code_blocks(size), 32768 / kCodeBlock,
      [&](std::int64_t begin, std::int64_t end) { simd_kernels().adamw_8bit(range, begin, end); });
  if (args.compute_copy.defined()) round_to_compute(args.param, args.compute_copy);
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
