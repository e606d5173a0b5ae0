// out = silu(gate) * up over the fused projection [gate | up]. fp32 inside, rounded once.
// N rows, F features, gate_up has 2F columns.
#pragma once
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

// amax: in/out, undefined unless wanted: fp32 [1], raised to the largest |out| as float8_amax has
// it.
void swiglu(const Tensor& gate_up_N2F, const Tensor& out_NF, const Tensor& amax = {});

struct SwigluBackward {
  Tensor dout_NF;
  Tensor gate_up_N2F;  // in/out: holds d gate | d up afterwards
  Tensor out_NF;       // out, undefined unless wanted: the forward's result again (recompute)
  Tensor amax = {};    // as above, of gate_up_N2F afterwards
};
void swiglu_backward(const SwigluBackward& args);

}  // namespace wmtp::kernels
