#include "wmtp/kernels/grad_norm.h"

#include "wmtp/kernels/cpu/fast.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/support/checks.h"
#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::kernels {
namespace {

void grad_norm_on_gpu(const Tensor& flat, const Tensor& out) {
  const Tensor partial = at::empty({kMaxPartialBlocks}, out.options());
  const CudaSquaredNorm args{element_of("add_squared_norm", flat), data_of(flat),
                             partial.data_ptr<double>(), out.data_ptr<double>(), flat.numel()};
  check_launch("add_squared_norm", gpu_kernels().squared_norm(args, gpu_stream()));
}

}  // namespace

void add_squared_norm(const Tensor& flat, const Tensor& out) {
  const ProfiledOperator operation("wmtp::add_squared_norm");
  const ArgChecks demands("add_squared_norm", flat);
  const DType dtype = flat.scalar_type();
  demands.vector("flat", flat, flat.numel(), dtype).scalar("out", out, kFloat64);
  if (flat.numel() == 0) return;
  if (flat.is_cuda()) return grad_norm_on_gpu(flat, out);
  if (dtype == kBFloat16) return cpu::fast::add_squared_norm(flat, out);
  if (is_double_on_cpu("add_squared_norm", flat)) return cpu::add_squared_norm<double>(flat, out);
  cpu::fast::add_squared_norm(flat, out);
}

}  // namespace wmtp::kernels
