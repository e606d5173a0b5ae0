// The vectorised CPU bodies of the ops: simd/ over ATen's threads. Same contracts as
// definitions.h; the number of threads changes no bit.
#pragma once
#include "wmtp/kernels/adamw.h"
#include "wmtp/kernels/cross_entropy.h"
#include "wmtp/kernels/rms_norm.h"
#include "wmtp/kernels/rope.h"
#include "wmtp/kernels/swiglu.h"

namespace wmtp::kernels::cpu::fast {

void rms_norm(const RmsNorm& args);
void rms_norm_backward(const RmsNormBackward& args);
void rope(const Rope& args);
void rope_backward(const RopeBackward& args);
void swiglu(const Tensor& gate_up_N2F, const Tensor& out_NF);
void swiglu_backward(const SwigluBackward& args);
void cross_entropy(const CrossEntropy& args);
void adamw(const AdamW& args);
void adamw_rounded(const AdamW& args);  // these two give the bits of reference.h's
void adamw_8bit(const AdamW& args);
void add_squared_norm(const Tensor& flat, const Tensor& out);  // fp32 or bf16

}  // namespace wmtp::kernels::cpu::fast
