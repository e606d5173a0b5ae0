#include <bit>
#include <cmath>

#include "wmtp/core/rng.h"
#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::kernels::cpu {
namespace {

using Bf16 = c10::BFloat16;

// A carry out of the fraction moves to the next exponent, which is the next neighbour.
Bf16 rounded(float value, std::uint32_t random16) {
  if (!std::isfinite(value)) return Bf16(value);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) + random16;
  return Bf16(static_cast<std::uint16_t>(bits >> 16), Bf16::from_bits());
}

template <class G>
void update_rounded(const AdamW& args) {
  const auto j = static_cast<std::uint64_t>(*args.applied_steps.data_ptr<std::int64_t>() + 1);
  const double power = static_cast<double>(j);
  const auto beta1 = static_cast<float>(args.beta1), beta2 = static_cast<float>(args.beta2);
  const auto keep = static_cast<float>(1 - args.learning_rate * args.weight_decay);
  const auto rate = static_cast<float>(args.learning_rate / (1 - std::pow(args.beta1, power)));
  const auto correction2 = static_cast<float>(1 / (1 - std::pow(args.beta2, power)));
  const auto eps = static_cast<float>(args.eps);
  const float grad_scale = *args.grad_scale.data_ptr<float>();
  Bf16* param = args.param.data_ptr<Bf16>();
  Bf16* exp_avg = args.exp_avg.data_ptr<Bf16>();
  Bf16* exp_avg_sq = args.exp_avg_sq.data_ptr<Bf16>();
  const G* grad = args.grad.data_ptr<G>();
  const StochasticRounding& rounding = args.rounding;
  parallel_for(args.param.numel(), 8192, [&](std::int64_t begin, std::int64_t end) {
    PhiloxWords words{};
    for (std::int64_t i = begin; i < end; ++i) {
      const auto e = static_cast<std::uint64_t>(rounding.first_element + i);
      if (i == begin || e % 2 == 0)
        words = philox4x32_10(rounding.seed, rounding.stream + j, e / 2);
      const std::uint32_t word = words[2 * (e % 2)], next = words[2 * (e % 2) + 1];
      const float g = static_cast<float>(grad[i]) * grad_scale;
      const float m1 = beta1 * static_cast<float>(exp_avg[i]) + (1 - beta1) * g;
      const float m2 = beta2 * static_cast<float>(exp_avg_sq[i]) + (1 - beta2) * g * g;
      const float p =
          static_cast<float>(param[i]) * keep - rate * m1 / (std::sqrt(m2 * correction2) + eps);
      param[i] = rounded(p, word & 0xffffu);
      exp_avg[i] = rounded(m1, word >> 16);
      exp_avg_sq[i] = rounded(m2, next & 0xffffu);
    }
  });
}

}  // namespace

void adamw_rounded(const AdamW& args) {
  if (*args.apply.data_ptr<std::int32_t>() == 0) return;
  args.grad.scalar_type() == kBFloat16 ? update_rounded<Bf16>(args) : update_rounded<float>(args);
  if (args.compute_copy.defined()) args.compute_copy.copy_(args.param);
}

}  // namespace wmtp::kernels::cpu
