#include "wmtp/kernels/swiglu.h"

#include "wmtp/kernels/checks.h"
#include "wmtp/kernels/cpu/definitions.h"
#include "wmtp/kernels/cpu/fast.h"

namespace wmtp::kernels {

void swiglu(const Tensor& gate_up_N2F, const Tensor& out_NF) {
  const Demands demands("swiglu", out_NF);
  const DType dtype = out_NF.scalar_type();
  demands.matrix("out", out_NF, out_NF.size(0), out_NF.size(1), dtype)
      .matrix("gate_up", gate_up_N2F, out_NF.size(0), 2 * out_NF.size(1), dtype);
  if (is_double_on_cpu("swiglu", out_NF)) return cpu::swiglu<double>(gate_up_N2F, out_NF);
  cpu::fast::swiglu(gate_up_N2F, out_NF);
}

void swiglu_backward(const SwigluBackward& args) {
  const Demands demands("swiglu_backward", args.dout_NF);
  const DType dtype = args.dout_NF.scalar_type();
  const std::int64_t rows = args.dout_NF.size(0), columns = args.dout_NF.size(1);
  demands.matrix("dout", args.dout_NF, rows, columns, dtype)
      .matrix("gate_up", args.gate_up_N2F, rows, 2 * columns, dtype);
  if (args.out_NF.defined()) demands.matrix("out", args.out_NF, rows, columns, dtype);
  if (is_double_on_cpu("swiglu_backward", args.dout_NF)) return cpu::swiglu_backward<double>(args);
  cpu::fast::swiglu_backward(args);
}

}  // namespace wmtp::kernels
