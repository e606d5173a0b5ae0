#include "wmtp/kernels/adamw.h"

#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::kernels::cpu {
namespace {

// The factors of one update, in the precision of the state.
template <class T>
struct Factors {
  T beta1, beta2, keep, rate, correction2, eps, grad_scale;

  explicit Factors(const AdamW& args) {
    const auto j = static_cast<double>(*args.applied_steps.data_ptr<std::int64_t>() + 1);
    beta1 = static_cast<T>(args.beta1);
    beta2 = static_cast<T>(args.beta2);
    keep = static_cast<T>(1 - args.learning_rate * args.weight_decay);
    rate = static_cast<T>(args.learning_rate / (1 - std::pow(args.beta1, j)));
    correction2 = static_cast<T>(1 / (1 - std::pow(args.beta2, j)));
    eps = static_cast<T>(args.eps);
    grad_scale = *args.grad_scale.data_ptr<T>();
  }
};

template <class T, class G, class C>
void update(const AdamW& args) {
  const Factors<T> f(args);
  T* param = args.param.data_ptr<T>();
  T* m1 = args.exp_avg.data_ptr<T>();
  T* m2 = args.exp_avg_sq.data_ptr<T>();
  const G* grad = args.grad.data_ptr<G>();
  C* copy = args.compute_copy.defined() ? args.compute_copy.data_ptr<C>() : nullptr;
  parallel_for(args.param.numel(), 32768, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T g = static_cast<T>(grad[i]) * f.grad_scale;
      m1[i] = f.beta1 * m1[i] + (1 - f.beta1) * g;
      m2[i] = f.beta2 * m2[i] + (1 - f.beta2) * g * g;
      param[i] = param[i] * f.keep - f.rate * m1[i] / (std::sqrt(m2[i] * f.correction2) + f.eps);
      if (copy) copy[i] = static_cast<C>(param[i]);
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
