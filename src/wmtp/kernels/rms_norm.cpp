#include "wmtp/kernels/rms_norm.h"

#include "wmtp/kernels/cpu/fast.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/support/checks.h"
#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::kernels {
namespace {

void check_rms_norm(const RmsNorm& args) {
  const ArgChecks demands("rms_norm", args.x_ND);
  const DType dtype = args.x_ND.scalar_type();
  const std::int64_t rows = args.x_ND.size(0), columns = args.x_ND.size(1);
  demands.matrix("x", args.x_ND, rows, columns, dtype)
      .vector("weight", args.weight_D, columns, dtype)
      .matrix("out", args.out_ND, rows, columns, dtype)
      .vector("rstd", args.rstd_N, rows, statistics_dtype(dtype));
  if (args.amax.defined()) demands.vector("amax", args.amax, 1, kFloat32);
  if (args.delta_ND.defined())
    demands.matrix("delta", args.delta_ND, rows, columns, dtype)
        .matrix("sum", args.sum_ND, rows, columns, dtype);
}

void check_rms_norm(const RmsNormBackward& args) {
  const ArgChecks demands("rms_norm_backward", args.x_ND);
  const DType dtype = args.x_ND.scalar_type();
  const std::int64_t rows = args.x_ND.size(0), columns = args.x_ND.size(1);
  demands.matrix("x", args.x_ND, rows, columns, dtype)
      .matrix("dout", args.dout_ND, rows, columns, dtype)
      .vector("rstd", args.rstd_N, rows, statistics_dtype(dtype))
      .vector("weight", args.weight_D, columns, dtype)
      .matrix("dx", args.dx_ND, rows, columns, dtype);
  if (args.dweight_D.defined()) demands.gradient("dweight", args.dweight_D, {columns});
}

void rms_norm_on_gpu(const RmsNorm& a) {
  const CudaRmsNorm args{element_of("rms_norm", a.x_ND),
                         data_of(a.x_ND),
                         data_of(a.delta_ND),
                         data_of(a.weight_D),
                         data_of(a.sum_ND),
                         data_of(a.out_ND),
                         floats_of(a.rstd_N),
                         a.x_ND.size(0),
                         a.x_ND.size(1),
                         row_stride(a.x_ND),
                         row_stride(a.delta_ND),
                         row_stride(a.sum_ND),
                         row_stride(a.out_ND),
                         static_cast<float>(a.eps),
                         floats_of(a.amax)};
  check_launch("rms_norm", gpu_kernels().rms_norm(args, gpu_stream()));
}

void rms_norm_on_gpu(const RmsNormBackward& a) {
  CudaRmsNormBackward args{};
  args.element = element_of("rms_norm_backward", a.x_ND);
  args.dout = data_of(a.dout_ND), args.dout_stride = row_stride(a.dout_ND);
  args.x = data_of(a.x_ND), args.x_stride = row_stride(a.x_ND);
  args.weight = data_of(a.weight_D), args.rstd = floats_of(a.rstd_N);
  args.dx = data_of(a.dx_ND), args.dx_stride = row_stride(a.dx_ND);
  args.rows = a.x_ND.size(0), args.columns = a.x_ND.size(1);
  args.num_blocks = static_cast<int>(std::min<std::int64_t>(args.rows, kMaxPartialBlocks));
  Tensor partial;
  if (a.dweight_D.defined()) {
    partial = at::empty({args.num_blocks, args.columns}, a.x_ND.options().dtype(kFloat32));
    args.partial = floats_of(partial);
    args.dweight = data_of(a.dweight_D);
    args.dweight_element = element_of("rms_norm_backward", a.dweight_D);
  }
  check_launch("rms_norm_backward", gpu_kernels().rms_norm_backward(args, gpu_stream()));
}

}  // namespace

void rms_norm(const RmsNorm& args) {
  const ProfiledOperator operation("wmtp::rms_norm");
  check_rms_norm(args);
  if (args.x_ND.numel() == 0) return;
  if (args.x_ND.is_cuda()) return rms_norm_on_gpu(args);
  is_double_on_cpu("rms_norm", args.x_ND) ? cpu::rms_norm<double>(args) : cpu::fast::rms_norm(args);
  cpu::raise_amax(args.amax, args.out_ND);
}

void rms_norm_backward(const RmsNormBackward& args) {
  const ProfiledOperator operation("wmtp::rms_norm_backward");
  check_rms_norm(args);
  if (args.x_ND.numel() == 0) return;
  if (args.x_ND.is_cuda()) return rms_norm_on_gpu(args);
  if (is_double_on_cpu("rms_norm_backward", args.x_ND)) return cpu::rms_norm_backward<double>(args);
  cpu::fast::rms_norm_backward(args);
}

}  // namespace wmtp::kernels
