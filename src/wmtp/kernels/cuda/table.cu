#include <cuda_runtime.h>

#include "wmtp/kernels/cuda/launchers.h"

namespace wmtp::kernels {

int launch_rms_norm(const CudaRmsNorm&, void*);
int launch_rms_norm_backward(const CudaRmsNormBackward&, void*);
int launch_rope(const CudaRope&, void*);
int launch_rope_backward(const CudaRopeBackward&, void*);
int launch_swiglu(const CudaSwiglu&, void*);
int launch_embedding(const CudaEmbedding&, void*);
int launch_embedding_backward(const CudaEmbeddingBackward&, void*);
int launch_cross_entropy(const CudaCrossEntropy&, void*);
int launch_adamw(const CudaAdamW&, void*);
int launch_adamw_rounded(const CudaAdamW&, void*);
int launch_adamw_bf16_moments(const CudaAdamW&, void*);
int launch_adamw_8bit(const CudaAdamW&, void*);
int launch_nf4_dequantize(const CudaNf4&, void*);
int launch_split_planes(const CudaPlanes&, void*);
int launch_join_planes(const CudaPlanes&, void*);
int launch_dropout(const CudaDropout&, void*);
int launch_float8_amax(const CudaFloat8Amax&, void*);
int launch_float8_quantise(const CudaFloat8Quantise&, void*);
int launch_float8_turn(const CudaFloat8Turn&, void*);
int launch_float8_product(const CudaFloat8Product&, void*);  // products/float8_product.cpp
int launch_squared_norm(const CudaSquaredNorm&, void*);
int launch_value_scan(const CudaValueScan&, void*);
int launch_response_stats(const CudaResponseStats&, void*);
int launch_top_k(const CudaTopK&, void*);

namespace {

const char* error_text(int code) {
  return cudaGetErrorString(static_cast<cudaError_t>(code));
}

}  // namespace

const CudaKernels& cuda_kernels() {
  static const CudaKernels table{launch_rms_norm,
                                 launch_rms_norm_backward,
                                 launch_rope,
                                 launch_rope_backward,
                                 launch_swiglu,
                                 launch_embedding,
                                 launch_embedding_backward,
                                 launch_cross_entropy,
                                 launch_adamw,
                                 launch_adamw_rounded,
                                 launch_adamw_bf16_moments,
                                 launch_adamw_8bit,
                                 launch_nf4_dequantize,
                                 launch_split_planes,
                                 launch_join_planes,
                                 launch_dropout,
                                 launch_float8_amax,
                                 launch_float8_quantise,
                                 launch_float8_turn,
                                 launch_float8_product,
                                 launch_squared_norm,
                                 launch_value_scan,
                                 launch_response_stats,
                                 launch_top_k,
                                 error_text};
  return table;
}

}  // namespace wmtp::kernels
