#include "wmtp/optim/clip.h"

#include <ATen/ops/ones_like.h>

namespace wmtp::optim {

Tensor clip_scale(const Tensor& squared_norm, double limit, c10::ScalarType dtype) {
  if (limit <= 0) return at::ones_like(squared_norm).to(dtype);
  return squared_norm.sqrt().add_(1e-6).reciprocal_().mul_(limit).clamp_max_(1.0).to(dtype);
}

}  // namespace wmtp::optim
