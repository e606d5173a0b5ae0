// Attention over documents of different lengths by cuDNN, on a GPU (the choice cudnn_packed of
// kernels/attention.h). It has never run on one: tests fill the plugin's slots by emulation.
#pragma once
#include "wmtp/kernels/attention_aten.h"

namespace wmtp::kernels {

// Whether the plugin that is loaded has it.
bool has_packed_attention();

// Whether it takes the documents: offsets are int32, and a reproducible backward's memory has a
// limit (packed/documents.h).
bool takes_packed(const Tensor& q_NHE, const Tensor& k_NGE, const Tensor& v_NGE,
                  const Documents& documents, bool deterministic);

// bf16 or fp16; REQUIRES takes_packed, e <= 256. Error config with cuDNN's words where it has no
// plan for the shape, or the plugin was built without it.
AttentionResult packed_attention(const GpuHeads& heads, const Documents& documents);
AttentionGrads packed_attention_backward(const GpuHeads& heads, const GpuOutput& output);

}  // namespace wmtp::kernels
