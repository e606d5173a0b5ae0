// The vectorised fp32 bodies, compiled once per instruction set from one source (bodies.h): one
// slot per body, all of them over plain pointers. A body computes each row, element or block the
// same way wherever its range begins, so the number of threads changes no bit.
#pragma once
#include <cstdint>

#include "wmtp/kernels/cpu/simd/optimizer_ranges.h"

namespace wmtp::kernels::cpu {

// N rows, D features. Strides are elements.
struct NormRows {
  const float *x, *delta, *weight;  // delta null: nothing is added
  float *sum, *out, *rstd;
  std::int64_t x_stride, delta_stride, sum_stride, out_stride, num_features;
  float eps;
};
struct NormBackwardRows {
  const float *dout, *x, *rstd, *weight;
  float* dx;  // +=
  std::int64_t dout_stride, x_stride, dx_stride, num_features;
};

struct RopeRows {
  const float *cos, *sin;
  float* qkv;
  const float *q_weight, *k_weight;  // null: no norm, in place
  float *out, *rstd;
  std::int64_t table_stride, qkv_stride, out_stride, rstd_stride;
  int num_q, num_kv, head_dim;
  float eps;
};
struct RopeBackwardRows {
  const float *cos, *sin, *dq, *dk, *dv, *qkv, *rstd, *q_weight, *k_weight;
  float* dqkv;
  std::int64_t table_stride, qkv_stride, rstd_stride, dqkv_stride;
  std::int64_t dq_token, dq_head, dk_token, dk_head, dv_token, dv_head;
  int num_q, num_kv, head_dim;
};

struct SwigluRows {
  float* gate_up;     // backward: holds its gradient afterwards
  const float* dout;  // backward only
  float* out;         // backward: may be null
  std::int64_t gate_up_stride, dout_stride, out_stride, num_features;
};

struct CrossEntropyRows {
  float* logits;
  const std::int32_t* targets;
  const float* scale;  // null: only nll
  float* nll;
  float* hidden;  // may be null; rows of scale 0 are cleared
  std::int64_t logits_stride, hidden_stride, num_logits, num_features;
};

// Bodies work on the items [begin, end).
struct SimdKernels {
  const char* name;
  void (*rms_norm)(const NormRows&, std::int64_t begin, std::int64_t end);
  // dweight (null: none) is overwritten with the sum over the rows of the range.
  void (*rms_norm_backward)(const NormBackwardRows&, std::int64_t begin, std::int64_t end,
                            float* dweight);
  void (*rope)(const RopeRows&, std::int64_t begin, std::int64_t end);
  // dq_weight | dk_weight (null: none), overwritten with the sums over the range.
  void (*rope_backward)(const RopeBackwardRows&, std::int64_t begin, std::int64_t end,
                        float* dqk_weight);
  void (*swiglu)(const SwigluRows&, std::int64_t begin, std::int64_t end);
  void (*swiglu_backward)(const SwigluRows&, std::int64_t begin, std::int64_t end);
  void (*cross_entropy)(const CrossEntropyRows&, std::int64_t begin, std::int64_t end);
  void (*adamw)(const AdamWRange&, std::int64_t begin, std::int64_t end);
  // Bit for bit what cpu/reference.h has, of blocks the second.
  void (*adamw_rounded)(const RoundedRange&, std::int64_t begin, std::int64_t end);
  void (*adamw_8bit)(const CodedRange&, std::int64_t begin, std::int64_t end);
  double (*squared_norm)(const float* values, std::int64_t size);
  double (*squared_norm_bf16)(const Bf16Bits* values, std::int64_t size);
  // Of one block, bit for bit as cpu/nf4.h has it.
  void (*nf4_dequantize)(const std::uint8_t* packed, float scale, std::int64_t size, float* out);
};

namespace baseline {
extern const SimdKernels kKernels;
}
namespace avx2 {
extern const SimdKernels kKernels;
}
namespace avx512 {
extern const SimdKernels kKernels;
}

// The widest this processor has, unless limited (kernels/support/simd_level.h).
const SimdKernels& simd_kernels();
// All that run here, narrowest first.
int num_simd_kernels();
const SimdKernels& simd_kernels(int index);
void use_simd_kernels(int index);  // REQUIRES index < num_simd_kernels()

}  // namespace wmtp::kernels::cpu
