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

// bf16, fp16. REQUIRES documents of one length.
AttentionResult cudnn_attention(const Tensor& q_NHE, const Tensor& k_NGE, const Tensor& v_NGE,
                                const Documents& documents);
AttentionGrads cudnn_attention_backward(const AttentionBackward& args);

// bf16, fp16, any documents.
AttentionResult flash_attention(const Tensor& q_NHE, const Tensor& k_NGE, const Tensor& v_NGE,
                                const Documents& documents);
AttentionGrads flash_attention_backward(const AttentionBackward& args);

// fp32 on a GPU, any documents. Key/value heads are repeated in memory: this kernel knows no
// groups.
AttentionResult efficient_attention(const Tensor& q_NHE, const Tensor& k_NGE, const Tensor& v_NGE,
                                    const Documents& documents);
AttentionGrads efficient_attention_backward(const AttentionBackward& args);

// [n, heads, e] -> the view [documents, heads, length, e]. REQUIRES documents of one length in
// [first, n).
Tensor as_batch(const Tensor& heads_NHE, std::int64_t first, std::int64_t num_documents,
                std::int64_t length);

}  // namespace wmtp::kernels
