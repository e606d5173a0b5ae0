#include "wmtp/kernels/rms_norm.h"

#include "wmtp/kernels/checks.h"
#include "wmtp/kernels/cpu/definitions.h"
#include "wmtp/kernels/cpu/fast.h"

namespace wmtp::kernels {
namespace {

void check(const RmsNorm& args) {
  const Demands demands("rms_norm", args.x_ND);
  const DType dtype = args.x_ND.scalar_type();
  const std::int64_t rows = args.x_ND.size(0), columns = args.x_ND.size(1);
  demands.matrix("x", args.x_ND, rows, columns, dtype)
      .vector("weight", args.weight_D, columns, dtype)
      .matrix("out", args.out_ND, rows, columns, dtype)
      .vector("rstd", args.rstd_N, rows, statistics_dtype(dtype));
  if (args.delta_ND.defined())
    demands.matrix("delta", args.delta_ND, rows, columns, dtype)
        .matrix("sum", args.sum_ND, rows, columns, dtype);
}

void check(const RmsNormBackward& args) {
  const Demands demands("rms_norm_backward", args.x_ND);
  const DType dtype = args.x_ND.scalar_type();
  const std::int64_t rows = args.x_ND.size(0), columns = args.x_ND.size(1);
  demands.matrix("x", args.x_ND, rows, columns, dtype)
      .matrix("dout", args.dout_ND, rows, columns, dtype)
      .vector("rstd", args.rstd_N, rows, statistics_dtype(dtype))
      .vector("weight", args.weight_D, columns, dtype)
      .matrix("dx", args.dx_ND, rows, columns, dtype);
  if (args.dweight_D.defined()) demands.gradient("dweight", args.dweight_D, {columns});
}

}  // namespace

void rms_norm(const RmsNorm& args) {
  check(args);
  if (is_double_on_cpu("rms_norm", args.x_ND)) return cpu::rms_norm<double>(args);
  cpu::fast::rms_norm(args);
}

void rms_norm_backward(const RmsNormBackward& args) {
  check(args);
  if (is_double_on_cpu("rms_norm_backward", args.x_ND)) return cpu::rms_norm_backward<double>(args);
  cpu::fast::rms_norm_backward(args);
}

}  // namespace wmtp::kernels
