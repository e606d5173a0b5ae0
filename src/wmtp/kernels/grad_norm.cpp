#include "wmtp/kernels/grad_norm.h"

#include "wmtp/kernels/checks.h"
#include "wmtp/kernels/cpu/definitions.h"
#include "wmtp/kernels/cpu/fast.h"

namespace wmtp::kernels {

void add_squared_norm(const Tensor& flat, const Tensor& out) {
  const Demands demands("add_squared_norm", flat);
  const DType dtype = flat.scalar_type();
  demands.vector("flat", flat, flat.numel(), dtype).scalar("out", out, kFloat64);
  if (dtype == kBFloat16) return cpu::fast::add_squared_norm(flat, out);
  if (is_double_on_cpu("add_squared_norm", flat)) return cpu::add_squared_norm<double>(flat, out);
  cpu::fast::add_squared_norm(flat, out);
}

}  // namespace wmtp::kernels
