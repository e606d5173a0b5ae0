// Attention over documents of different lengths, as cuDNN computes it for the dispatching sources
// of kernels/: what its two slots of launchers.h take. A plan of cuDNN has fixed sizes; lengths and
// places of the documents are device data, so that one plan serves every micro-batch of its bucket.
#pragma once
#include <cstdint>

#include "wmtp/kernels/cuda/launchers.h"

namespace wmtp::kernels {

// What a plan depends on. Extents and strides are elements.
struct PackedAttentionShape {
  Element element;  // bf16 or fp16
  bool backward;
  bool deterministic;  // of the backward: false in a forward
  // The bucket: at most `documents` documents of at most `length` tokens, `tokens` in all. A
  // forward does not depend on the latter: 0.
  std::int64_t documents, length, tokens;
  std::int64_t num_q, num_kv, head_dim;       // head_dim is a multiple of 8
  std::int64_t q_stride, k_stride, v_stride;  // between tokens, of 8 elements; heads are contiguous
  float scale;
};

// Every pointer but those of lengths, offsets and statistics is on a 16-byte boundary. Offsets are
// elements from the pointer to each document's first token, and of the end; documents that are not
// there have no length and lie at the end. out, dout, dq are [tokens, num_q, head_dim], dk and dv
// [tokens, num_kv, head_dim], the statistics [tokens, num_q] fp32: the logarithm of the sum of
// exponentials. Nothing outside of a document is read or written.
struct CudaPackedAttention {
  PackedAttentionShape shape;
  const void *q, *k, *v;
  void* out;          // backward: read
  float* statistics;  // backward: read
  const void* dout;   // of the backward, as all below
  void *dq, *dk, *dv;
  const std::int32_t* lengths;  // [documents]
  // [documents + 1] each; out's are dout's and dq's, kv_grad's are dk's and dv's.
  const std::int32_t *q_offsets, *k_offsets, *v_offsets, *out_offsets, *statistics_offsets,
      *kv_grad_offsets;
};

}  // namespace wmtp::kernels
