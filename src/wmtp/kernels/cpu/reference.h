// The slow, obvious CPU bodies: what each op means. T is float or double; with double every "fp32"
// of the contracts reads fp64. The dispatching sources have checked the arguments.
#pragma once
#include "wmtp/kernels/adamw.h"
#include "wmtp/kernels/attention.h"
#include "wmtp/kernels/codes/planes.h"
#include "wmtp/kernels/cross_entropy.h"
#include "wmtp/kernels/dropout.h"
#include "wmtp/kernels/float8.h"
#include "wmtp/kernels/response_stats.h"
#include "wmtp/kernels/rms_norm.h"
#include "wmtp/kernels/rope.h"
#include "wmtp/kernels/swiglu.h"
#include "wmtp/kernels/top_k.h"
#include "wmtp/kernels/value_scan.h"

namespace wmtp::kernels::cpu {

template <class T>
void rms_norm(const RmsNorm& args);
template <class T>
void rms_norm_backward(const RmsNormBackward& args);

template <class T>
void rope(const Rope& args);
template <class T>
void rope_backward(const RopeBackward& args);

template <class T>
void swiglu(const Tensor& gate_up_N2F, const Tensor& out_NF);
template <class T>
void swiglu_backward(const SwigluBackward& args);

template <class T>
void dropout(const Tensor& x_NI, const DropoutMask& mask, const Tensor& out_NI);

// Fills the values of the forms that are defined, and adds their scales.
void quantise(const Float8Quantise& args, Float8Forms& forms);
// Raises amax, if there is one, to that of `written` by its bits, which have a NaN above all.
void raise_amax(const Tensor& amax, const Tensor& written_RC);

// Error data on a token outside [0, V).
template <class T>
void embedding(const Tensor& tokens_N, const Tensor& weight_VD, const Tensor& out_ND);
template <class T>
void embedding_backward(const Tensor& tokens_N, const Tensor& dout_ND, const Tensor& dweight_VD);

// lse is [N, H].
template <class T>
AttentionResult attention(const Tensor& q_NHE, const Tensor& k_NGE, const Tensor& v_NGE,
                          const Documents& documents);
template <class T>
AttentionGrads attention_backward(const AttentionBackward& args);

// Error data on a target outside [0, V).
void check_targets(const Tensor& targets_M, std::int64_t vocabulary);
template <class T>
void cross_entropy(const CrossEntropy& args);

template <class T>
void adamw(const AdamW& args);
void adamw_rounded(const AdamW& args);  // bf16 moments
void adamw_8bit(const AdamW& args);     // moments in 8 bits

void split_planes(const Tensor& whole, const Planes& planes);  // the lower one may be left out
void join_planes(const Planes& planes, const Tensor& whole);

template <class T>
void add_squared_norm(const Tensor& flat, const Tensor& out);

template <class T>
void value_scan(const ValueScan& args);
template <class T>
void response_stats(const Tensor& values_N, const Responses& responses, const Tensor& stats_DS);
template <class T>
void top_k(const TopK& args);

}  // namespace wmtp::kernels::cpu
