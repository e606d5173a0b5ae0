// A tensor of random values that depend on the parameter's name alone.
#pragma once
#include <ATen/ops/empty.h>

#include "wmtp/model/init_weights.h"

namespace wmtp::test {

inline Tensor drawn(const layout::ParamSpec& param) {
  const Tensor values = at::empty({param.numel()}, at::kFloat);
  model::random_init({param.name + ".drawn", param.shape}, 1, 0.1, 0, values);
  return values.view(param.shape);
}

}  // namespace wmtp::test
