#include "wmtp/kernels/swiglu.h"

#include "wmtp/kernels/cpu/fast.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/support/checks.h"
#include "wmtp/kernels/support/cuda_launch.h"
#include "wmtp/tensor/profile_scope.h"

namespace wmtp::kernels {
namespace {

// Backward where there is a dout.
void swiglu_on_gpu(const SwigluBackward& a) {
  const std::int64_t columns = a.gate_up_N2F.size(1) / 2;
  const CudaSwiglu args{element_of("swiglu", a.gate_up_N2F),
                        data_of(a.gate_up_N2F),
                        data_of(a.dout_NF),
                        data_of(a.out_NF),
                        a.gate_up_N2F.size(0),
                        columns,
                        row_stride(a.gate_up_N2F),
                        row_stride(a.dout_NF),
                        row_stride(a.out_NF),
                        floats_of(a.amax)};
  check_launch("swiglu", gpu_kernels().swiglu(args, gpu_stream()));
}

}  // namespace

void swiglu(const Tensor& gate_up_N2F, const Tensor& out_NF, const Tensor& amax) {
  const ProfiledOperator operation("wmtp::swiglu");
  const ArgChecks demands("swiglu", out_NF);
  const DType dtype = out_NF.scalar_type();
  demands.matrix("out", out_NF, out_NF.size(0), out_NF.size(1), dtype)
      .matrix("gate_up", gate_up_N2F, out_NF.size(0), 2 * out_NF.size(1), dtype);
  if (amax.defined()) demands.vector("amax", amax, 1, kFloat32);
  if (out_NF.numel() == 0) return;
  if (out_NF.is_cuda()) return swiglu_on_gpu(SwigluBackward{{}, gate_up_N2F, out_NF, amax});
  is_double_on_cpu("swiglu", out_NF) ? cpu::swiglu<double>(gate_up_N2F, out_NF)
                                     : cpu::fast::swiglu(gate_up_N2F, out_NF);
  cpu::raise_amax(amax, out_NF);
}

void swiglu_backward(const SwigluBackward& args) {
  const ProfiledOperator operation("wmtp::swiglu_backward");
  const ArgChecks demands("swiglu_backward", args.dout_NF);
  const DType dtype = args.dout_NF.scalar_type();
  const std::int64_t rows = args.dout_NF.size(0), columns = args.dout_NF.size(1);
  demands.matrix("dout", args.dout_NF, rows, columns, dtype)
      .matrix("gate_up", args.gate_up_N2F, rows, 2 * columns, dtype);
  if (args.amax.defined()) demands.vector("amax", args.amax, 1, kFloat32);
  if (args.out_NF.defined()) demands.matrix("out", args.out_NF, rows, columns, dtype);
  if (args.dout_NF.numel() == 0) return;
  if (args.dout_NF.is_cuda()) return swiglu_on_gpu(args);
  is_double_on_cpu("swiglu_backward", args.dout_NF) ? cpu::swiglu_backward<double>(args)
                                                    : cpu::fast::swiglu_backward(args);
  cpu::raise_amax(args.amax, args.gate_up_N2F);
}

}  // namespace wmtp::kernels
