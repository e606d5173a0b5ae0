#include "wmtp/kernels/adamw.h"

#include <bit>
#include <type_traits>

#include "wmtp/kernels/codes/plane_bits.h"
#include "wmtp/kernels/cpu/adamw_factors.h"
#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::kernels::cpu {
namespace {

template <class C, class T>
C as_computed(T value) {
  if constexpr (std::is_same_v<C, c10::BFloat16> && std::is_same_v<T, float>)
    return {split_bits(std::bit_cast<std::uint32_t>(value)).upper, C::from_bits()};
  else
    return static_cast<C>(value);
}

template <class T, class G, class C>
void update(const AdamW& args) {
  const AdamWFactors<T> factors(args);
  T* param = args.param.data_ptr<T>();
  T* m1 = args.exp_avg.data_ptr<T>();
  T* m2 = args.exp_avg_sq.data_ptr<T>();
  const G* grad = args.grad.data_ptr<G>();
  C* copy = args.compute_copy.defined() ? args.compute_copy.data_ptr<C>() : nullptr;
  parallel_for(args.param.numel(), 32768, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      param[i] = factors.updated(param[i], static_cast<T>(grad[i]), m1[i], m2[i]);
      if (copy) copy[i] = as_computed<C>(param[i]);
    }
  });
}

template <class T, class G>
void update_with_copy(const AdamW& args) {
  const bool half_copy =
      args.compute_copy.defined() && args.compute_copy.scalar_type() == kBFloat16;
  half_copy ? update<T, G, c10::BFloat16>(args) : update<T, G, T>(args);
}

}  // namespace

template <class T>
void adamw(const AdamW& args) {
  if (*args.apply.data_ptr<std::int32_t>() == 0) return;
  if (args.grad.scalar_type() == kBFloat16)
    update_with_copy<T, c10::BFloat16>(args);
  else
    update_with_copy<T, T>(args);
}

template void adamw<float>(const AdamW&);
template void adamw<double>(const AdamW&);

}  // namespace wmtp::kernels::cpu
