#include "wmtp/kernels/cpu/adamw_factors.h"
#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/cpu/stochastic_rounding.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::kernels::cpu {
namespace {

using Bf16 = c10::BFloat16;

template <class P, class G>
void update_rounded(const AdamW& args) {
  const AdamWFactors<float> factors(args);
  P* param = args.param.data_ptr<P>();
  Bf16* exp_avg = args.exp_avg.data_ptr<Bf16>();
  Bf16* exp_avg_sq = args.exp_avg_sq.data_ptr<Bf16>();
  const G* grad = args.grad.data_ptr<G>();
  parallel_for(args.param.numel(), 8192, [&](std::int64_t begin, std::int64_t end) {
    RoundingDraws draws(args);
    for (std::int64_t i = begin; i < end; ++i) {
      auto m1 = static_cast<float>(exp_avg[i]), m2 = static_cast<float>(exp_avg_sq[i]);
      const float p =
          factors.updated(static_cast<float>(param[i]), static_cast<float>(grad[i]), m1, m2);
      const RoundingDraws::Halves draw = draws.at(i);
      store_param(param[i], p, draw.param);
      exp_avg[i] = rounded(m1, draw.exp_avg);
      exp_avg_sq[i] = rounded(m2, draw.exp_avg_sq);
    }
  });
}

}  // namespace

void adamw_rounded(const AdamW& args) {
  if (*args.apply.data_ptr<std::int32_t>() == 0) return;
  const bool half_grad = args.grad.scalar_type() == kBFloat16;
  if (args.param.scalar_type() == kBFloat16)
    half_grad ? update_rounded<Bf16, Bf16>(args) : update_rounded<Bf16, float>(args);
  else
    half_grad ? update_rounded<float, Bf16>(args) : update_rounded<float, float>(args);
  if (args.compute_copy.defined()) args.compute_copy.copy_(args.param);
}

}  // namespace wmtp::kernels::cpu
