// What the two bodies of rope share: rope.cu (16-byte packs) and rope_any.cu (one feature at a
// time, whatever the head's size and place).
#pragma once
#include "wmtp/kernels/cuda/common.cuh"

namespace wmtp::kernels {

// Any even head_dim, any alignment.
int launch_rope_any(const CudaRope& a, void* stream);
int launch_rope_backward_any(const CudaRopeBackward& a, void* stream);  // fills partial, adds none

// Where the gradient of head i of a token comes from.
struct Source {
  const void* base;
  std::int64_t at;
};

__device__ __forceinline__ Source source_of(const CudaRopeBackward& a, std::int64_t token, int i) {
  if (i < a.num_q) return {a.dq, token * a.dq_token + i * a.dq_head};
  i -= a.num_q;
  if (i < a.num_kv) return {a.dk, token * a.dk_token + i * a.dk_head};
  i -= a.num_kv;
  return {a.dv, token * a.dv_token + i * a.dv_head};
}

}  // namespace wmtp::kernels
