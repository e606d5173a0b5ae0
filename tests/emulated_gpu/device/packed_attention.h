// The slots that a GPU plugin fills with cuDNN's attention over documents (launchers.h).
#pragma once
#include "wmtp/kernels/cuda/packed_attention.h"

namespace wmtp::emulated {

int plan_packed_attention(const kernels::PackedAttentionShape& shape, std::int64_t* workspace_bytes,
                          std::string* why);
int packed_attention(const kernels::CudaPackedAttention& args, void* workspace, void* stream,
                     std::string* why);

}  // namespace wmtp::emulated
