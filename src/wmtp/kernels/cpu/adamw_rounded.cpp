#include "wmtp/kernels/cpu/adamw_factors.h"
#include "wmtp/kernels/cpu/master_element.h"
#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::kernels::cpu {
namespace {

using Bf16 = c10::BFloat16;

template <class Master, class G>
void update_rounded(const AdamW& args) {
  const AdamWFactors<float> factors(args);
  const Master master(args);
  Bf16* exp_avg = args.exp_avg.data_ptr<Bf16>();
  Bf16* exp_avg_sq = args.exp_avg_sq.data_ptr<Bf16>();
  const G* grad = args.grad.data_ptr<G>();
  parallel_for(args.param.numel(), 8192, [&](std::int64_t begin, std::int64_t end) {
    RoundingDraws draws(args);
    for (std::int64_t i = begin; i < end; ++i) {
      auto m1 = static_cast<float>(exp_avg[i]), m2 = static_cast<float>(exp_avg_sq[i]);
      const float p = factors.updated(master.load(i), static_cast<float>(grad[i]), m1, m2);
      const RoundingDraws::Halves draw = draws.at(i);
      master.store(i, p, draw.param);
      exp_avg[i] = rounded(m1, draw.exp_avg);
      exp_avg_sq[i] = rounded(m2, draw.exp_avg_sq);
    }
  });
}

template <class Master>
void update_master(const AdamW& args) {
  if (args.grad.scalar_type() == kBFloat16)
    update_rounded<Master, Bf16>(args);
  else
    update_rounded<Master, float>(args);
}

}  // namespace

void adamw_rounded(const AdamW& args) {
  if (*args.apply.data_ptr<std::int32_t>() == 0) return;
  if (args.param_lower.defined())
    update_master<MasterPlanes>(args);
  else if (args.param.scalar_type() == kBFloat16)
    update_master<MasterTensor<Bf16>>(args);
  else
    update_master<MasterTensor<float>>(args);
  if (args.compute_copy.defined()) round_to_compute(args.param, args.compute_copy);
}

}  // namespace wmtp::kernels::cpu
