#include "wmtp/kernels/codes/planes.h"

#include <ATen/ops/empty.h>

#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/support/checks.h"
#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::kernels {
namespace {

CudaPlanes on_gpu(const Tensor& whole, const Planes& planes) {
  return {floats_of(whole), data_of(planes.upper), data_of(planes.lower), whole.numel()};
}

// The lower plane may be left out.
void split(const char* op, const Tensor& whole, const Planes& planes) {
  const ProfiledOperator operation("wmtp::split_planes");
  const ArgChecks demands(op, whole);
  demands.vector("whole", whole, whole.numel(), kFloat32)
      .vector("upper", planes.upper, whole.numel(), kBFloat16);
  if (planes.lower.defined())
    demands.vector("lower", planes.lower, whole.numel(), c10::ScalarType::Short);
  if (whole.numel() == 0) return;
  if (!whole.is_cuda()) return cpu::split_planes(whole, planes);
  check_launch(op, gpu_kernels().split_planes(on_gpu(whole, planes), gpu_stream()));
}

}  // namespace

void split_planes(const Tensor& whole, const Planes& planes) {
  WMTP_CHECK(planes.lower.defined(), "split_planes: no lower plane");
  split("split_planes", whole, planes);
}

void join_planes(const Planes& planes, const Tensor& whole) {
  const ProfiledOperator operation("wmtp::join_planes");
  ArgChecks("join_planes", whole)
      .vector("whole", whole, whole.numel(), kFloat32)
      .vector("upper", planes.upper, whole.numel(), kBFloat16)
      .vector("lower", planes.lower, whole.numel(), c10::ScalarType::Short);
  if (whole.numel() == 0) return;
  if (!whole.is_cuda()) return cpu::join_planes(planes, whole);
  check_launch("join_planes", gpu_kernels().join_planes(on_gpu(whole, planes), gpu_stream()));
}

void round_to_compute(const Tensor& master, const Tensor& out) {
  if (master.scalar_type() != kFloat32 || out.scalar_type() != kBFloat16) {
    out.copy_(master, /*non_blocking=*/true);
  } else if (master.device() == out.device()) {
    split("round_to_compute", master, {out, {}});
  } else {
    const Tensor rounded = at::empty(master.sizes(), master.options().dtype(kBFloat16));
    split("round_to_compute", master, {rounded, {}});
    out.copy_(rounded, /*non_blocking=*/true);
  }
}

}  // namespace wmtp::kernels
