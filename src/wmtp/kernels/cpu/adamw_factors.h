// The factors of one update, in the precision it is computed in.
#pragma once
#include <cmath>

#include "wmtp/kernels/adamw.h"

namespace wmtp::kernels::cpu {

template <class T>
struct AdamWFactors {
  T beta1, beta2, keep, rate, correction2, eps, grad_scale;

  explicit AdamWFactors(const AdamW& args) {
    const auto j = static_cast<double>(*args.applied_steps.data_ptr<std::int64_t>() + 1);
    beta1 = static_cast<T>(args.beta1);
    beta2 = static_cast<T>(args.beta2);
    keep = static_cast<T>(1 - args.learning_rate * args.weight_decay);
    rate = static_cast<T>(args.learning_rate / (1 - std::pow(args.beta1, j)));
    correction2 = static_cast<T>(1 / (1 - std::pow(args.beta2, j)));
    eps = static_cast<T>(args.eps);
    grad_scale = *args.grad_scale.data_ptr<T>();
  }

  // One element: its moments are replaced, its new weight is returned.
  T updated(T param, T grad, T& m1, T& m2) const {
    const T g = grad * grad_scale;
    m1 = beta1 * m1 + (1 - beta1) * g;
    m2 = beta2 * m2 + (1 - beta2) * g * g;
    return param * keep - rate * m1 / (std::sqrt(m2 * correction2) + eps);
  }
};

}  // namespace wmtp::kernels::cpu
