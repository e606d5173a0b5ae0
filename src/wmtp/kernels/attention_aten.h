// ATen's attention kernels behind kernels/attention.h, one pair of functions per kernel. The
// arguments were checked and there is at least one token.
#pragma once
#include "wmtp/kernels/attention.h"

namespace wmtp::kernels {

// fp32, fp64: the flash kernel for CPUs, once per document (once in all for documents of one
// length).
AttentionResult cpu_attention(const Tensor& q_NHE, const Tensor& k_NGE, const Tensor& v_NGE,
                              const Documents& documents);
AttentionGrads cpu_attention_backward(const AttentionBackward& args);

// On a GPU, by the kernel `choice` names:
//   cudnn      bf16, fp16; REQUIRES documents of one length, e <= 128
//   cudnn_packed  as packed/attention.h has it
//   flash      bf16, fp16, any documents; REQUIRES e <= 256
//   efficient  any dtype, any documents, any e; key/value heads are repeated in memory: this kernel
//              knows no groups
// Heads the kernels cannot read are copied to where they can (fitted). Error config for more
// documents or heads than the kernels' grids hold.
AttentionResult gpu_attention(AttentionChoice choice, const Tensor& q_NHE, const Tensor& k_NGE,
                              const Tensor& v_NGE, const Documents& documents);
AttentionGrads gpu_attention_backward(const AttentionBackward& args);

// What the kernels for GPUs get: fitted tensors, and the scale of the heads as they were.
struct GpuHeads {
  Tensor q_NHE, k_NGE, v_NGE;
  double scale;
};
// The forward's result and its gradient, fitted as well. BORROWS the two.
struct GpuOutput {
  Tensor out_NHE, dout_NHE;
  const AttentionResult& forward;
  const Documents& documents;
  bool deterministic;
};

// The heads as ATen's GPU kernels read them: e a multiple of 16 bytes, every head on a 16-byte
// boundary. The tensor itself where that holds, else a copy with zeros behind the features. Zeros
// change no product of q and k and add features to the output that are cut off again; the scale
// stays that of the e features.
Tensor fitted(const Tensor& heads_NHE);

// [n, heads, e] -> the view [documents, heads, length, e]. REQUIRES documents of one length in
// [first, n).
Tensor as_batch(const Tensor& heads_NHE, std::int64_t first, std::int64_t num_documents,
                std::int64_t length);

}  // namespace wmtp::kernels
