// The slots packed_attention_plan and packed_attention of launchers.h. In plugins that were built
// with cuDNN's frontend.
#pragma once
#include "wmtp/kernels/cuda/packed_attention.h"

namespace wmtp::kernels {

int plan_packed_attention(const PackedAttentionShape& shape, std::int64_t* workspace_bytes,
                          std::string* why);
int launch_packed_attention(const CudaPackedAttention& args, void* workspace, void* stream,
                            std::string* why);

}  // namespace wmtp::kernels
