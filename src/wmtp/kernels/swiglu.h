// out = silu(gate) * up over the fused projection [gate | up]. fp32 inside, rounded once.
// N rows, F features, gate_up has 2F columns.
#pragma once
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

void swiglu(const Tensor& gate_up_N2F, const Tensor& out_NF);

struct SwigluBackward {
  Tensor dout_NF;
  Tensor gate_up_N2F;  // in/out: holds d gate | d up afterwards
  Tensor out_NF;       // out, undefined unless wanted: the forward's result again (recompute)
};
void swiglu_backward(const SwigluBackward& args);

}  // namespace wmtp::kernels
