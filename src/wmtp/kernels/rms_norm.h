// RMS normalisation with the residual add in front of it.
//   x = x + delta (if given);  r = 1 / sqrt(mean_D(x^2) + eps);  out = round(x * r) * w
// Statistics are fp32 (fp64 for double tensors); x * r is rounded to the activation dtype before
// the multiplication, as transformers and Meta's code do. N rows (tokens), D features.
#pragma once
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

struct RmsNorm {
  Tensor x_ND;
  Tensor delta_ND;  // undefined: nothing is added
  Tensor weight_D;
  double eps = 1e-5;
  Tensor sum_ND;  // out: x + delta; may alias x_ND or delta_ND; undefined without delta
  Tensor out_ND;  // out; may alias delta_ND only if sum_ND does not
  Tensor rstd_N;  // out: r, fp32 (fp64)
  // in/out, undefined unless wanted: fp32 [1], raised to the largest |out| as float8_amax has it
  Tensor amax = {};
};
void rms_norm(const RmsNorm& args);

struct RmsNormBackward {
  Tensor dout_ND, x_ND, rstd_N, weight_D;  // x_ND is the normalised input (the sum)
  Tensor dx_ND;                            // in/out: += dL/dx through the norm
  Tensor dweight_D;  // in/out: += dL/dw; undefined: frozen. Any of fp32, bf16, fp64
};
void rms_norm_backward(const RmsNormBackward& args);

}  // namespace wmtp::kernels
