// What the GPU plugin offers to the dispatching sources of kernels/: one slot per launcher.
// Torch-free: the .cu files include this and nothing of LibTorch. Pointers are device pointers,
// extents and strides are elements, the stream is a cudaStream_t. A launcher checks its own launch
// and throws nothing: it returns a cudaError_t as int (0 = ok). Strides named `stride` separate
// rows; features are contiguous. An `Element` says what the void pointers of activations and
// weights point to; a gradient sum has its own.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "wmtp/kernels/codes/float8_format.h"
#include "wmtp/kernels/scan_kind.h"

namespace wmtp::kernels {

enum class Element : int { fp32 = 0, bf16 = 1, fp16 = 2 };

// Rows of partial sums that some backwards need as workspace: [num_blocks, columns] fp32.
inline constexpr int kMaxPartialBlocks = 528;

struct CudaRmsNorm {
  Element element;
  const void *x, *delta, *weight;  // delta null: nothing is added
  void *sum, *out;
  float* rstd;
  std::int64_t rows, columns, x_stride, delta_stride, sum_stride, out_stride;
  float eps;
  float* amax = nullptr;  // raised to the largest |out|, if there is one
};

struct CudaRmsNormBackward {
  Element element, dweight_element;
  const void *dout, *x, *weight;
  const float* rstd;
  void *dx, *dweight;  // dweight null: frozen
  float* partial;      // [num_blocks, columns]
  std::int64_t rows, columns, dout_stride, x_stride, dx_stride;
  int num_blocks;
};

struct CudaRope {
  Element element;
  const float *cos, *sin;  // [tokens, head_dim / 2], contiguous
  void* qkv;
  const void *q_weight, *k_weight;  // null: no norm, in place
  void* out;
  float* rstd;  // [tokens, num_q + num_kv], contiguous
  std::int64_t tokens, qkv_stride, out_stride;
  int num_q, num_kv, head_dim;
  float eps;
};

struct CudaRopeBackward {
  Element element, dweight_element;
  const float *cos, *sin, *rstd;
  const void *dq, *dk, *dv, *qkv, *q_weight, *k_weight;
  void *dqkv, *dq_weight, *dk_weight;
  float* partial;  // [num_blocks, 2 * head_dim]; null: no weight gradients
  std::int64_t tokens, qkv_stride, dqkv_stride;
  std::int64_t dq_token, dq_head, dk_token, dk_head, dv_token, dv_head;
  int num_q, num_kv, head_dim, num_blocks;
  float* amax = nullptr;  // raised to the largest |dqkv|, if there is one
};

struct CudaSwiglu {
  Element element;
  void* gate_up;     // backward: holds its gradient afterwards
  const void* dout;  // null: forward
  void* out;         // backward: may be null
  std::int64_t rows, columns, gate_up_stride, dout_stride, out_stride;
  float* amax = nullptr;  // raised to the largest |out|, backward to that of gate_up afterwards
};

struct CudaEmbedding {
  Element element;
  const std::int32_t* tokens;
  const void* weight;
  void* out;
  std::int64_t tokens_count, columns, weight_stride, out_stride;
};

struct CudaEmbeddingBackward {
  Element element, dweight_element;
  const std::int32_t* sorted_tokens;
  const std::int64_t* order;  // sorted_tokens[i] = tokens[order[i]], equal tokens in token order
  const void* dout;
  void* dweight;  // contiguous
  std::int64_t tokens_count, columns, dout_stride;
};

struct CudaCrossEntropy {
  Element element;
  void *logits, *hidden;  // hidden may be null
  const std::int32_t* targets;
  const float* scale;  // null: only nll
  float* nll;
  std::int64_t rows, num_logits, logits_stride, num_features, hidden_stride;
};

struct CudaAdamW {
  Element grad_element, copy_element;
  // fp32; adamw_rounded: bf16; adamw_bf16_moments: the moments bf16; adamw_8bit: codes beside bf16
  void *param, *exp_avg, *exp_avg_sq;
  // adamw, adamw_bf16_moments: the lower plane of a master whose upper one is `param`; null: one
  // tensor. Such a master has no copy.
  void* param_lower;
  float *exp_avg_scales, *exp_avg_sq_scales;  // adamw_8bit
  const void* grad;
  void* copy;  // may be null
  const float* grad_scale;
  const std::int64_t* applied_steps;
  const std::int32_t* apply;
  std::int64_t size;
  float beta1, beta2, log_beta1, log_beta2, learning_rate, weight_decay, eps;
  std::uint64_t seed, stream, first_element;  // of stochastic rounding
};

struct CudaNf4 {
  Element element;  // of out
  const std::uint8_t* packed;
  const std::uint8_t* codes;  // null: absmax has the scales
  const float *group_max, *absmax;
  void* out;
  std::int64_t size;
  std::int64_t skipped_blocks;  // of the first group of 256, before the first weight
  float offset;
};

struct CudaPlanes {
  float* whole;
  void *upper, *lower;  // bf16, int16; split_planes: lower null: upper only
  std::int64_t size;
};

struct CudaDropout {
  Element element;
  const void* x;
  void* out;
  const std::int32_t *document, *position;  // [rows]
  const std::int64_t* streams;              // by document
  std::int64_t rows, columns, x_stride, out_stride;
  std::uint64_t seed;
  std::uint64_t first_kept;  // words below it drop their element; up to 2^32
  float scale;
};

struct CudaFloat8Amax {
  Element element;
  const void* x;
  float *of_rows, *of_columns;  // zeros before; of_columns null: one number, of_rows[0]
  std::int64_t rows, columns, x_stride;
};

struct CudaFloat8Quantise {
  Element element;
  Float8Format format;
  bool rowwise;  // REQUIRES e4m3
  const void* x;
  const float *amax_of_rows, *amax_of_columns;
  std::uint8_t *by_rows, *by_columns;           // [rows, columns], [columns, padded_rows]
  float *inverse_of_rows, *inverse_of_columns;  // null: this order is not wanted
  std::int64_t rows, columns, x_stride, padded_rows;
};

// REQUIRES multiples of 16.
struct CudaFloat8Turn {
  const std::uint8_t* by_rows;  // [rows, columns]
  std::uint8_t* by_columns;     // [columns, rows]
  std::int64_t rows, columns;
};

// cudaErrorNotSupported, of a product that cublasLt does not have: nothing was launched.
inline constexpr int kNotSupported = 801;

// out = beta out + left right^T with the scales' inverses: one each, or one for each row of both.
struct CudaFloat8Product {
  Element out_element;
  Float8Format left_format, right_format;
  bool rowwise, fast;        // fast: the multiplying units may add up in fewer bits
  const void *left, *right;  // [rows, contracted], [columns, contracted]
  const float *left_inverse, *right_inverse;  // null: no scales
  void* out;
  std::int64_t rows, columns, contracted, out_stride;
  int beta;
};

struct CudaSquaredNorm {
  Element element;
  const void* values;
  double* partial;  // [kMaxPartialBlocks]
  double* out;      // +=
  std::int64_t size;
};

struct CudaValueScan {
  ScanKind kind;
  const float *values, *reward;  // reward may be null for gae_value
  const std::uint8_t* mask;
  const std::int32_t* doc_start;  // [num_docs + 1]
  float* out;
  std::int32_t* bad;  // [num_docs]; may be null
  std::int64_t num_docs;
  float gamma, lambda, v_init;
  const float* device_lambda = nullptr;  // read instead of lambda where it is not null
};

struct CudaResponseStats {
  const float* values;
  const std::uint8_t* mask;
  const std::int32_t* doc_start;  // [num_docs + 1]
  double* stats;                  // [num_docs, 6], the columns of ResponseStat
  std::int64_t num_docs;
};

struct CudaTopK {
  const float* scores;
  const std::uint8_t* valid;  // may be null
  float* selected;
  double* summary;  // n, c, theta
  std::int64_t size, share_millionths;
};

struct PackedAttentionShape;  // packed_attention.h
struct CudaPackedAttention;

struct CudaProduct;  // products/measured_product.h
// As cublasLt keeps it: to another version of it the numbers mean nothing.
using ProductAlgorithm = std::array<std::uint64_t, 8>;

struct CudaKernels {
  int (*rms_norm)(const CudaRmsNorm&, void* stream);
  int (*rms_norm_backward)(const CudaRmsNormBackward&, void* stream);
  int (*rope)(const CudaRope&, void* stream);
  int (*rope_backward)(const CudaRopeBackward&, void* stream);
  int (*swiglu)(const CudaSwiglu&, void* stream);
  int (*embedding)(const CudaEmbedding&, void* stream);
  int (*embedding_backward)(const CudaEmbeddingBackward&, void* stream);
  int (*cross_entropy)(const CudaCrossEntropy&, void* stream);
  int (*adamw)(const CudaAdamW&, void* stream);
  int (*adamw_rounded)(const CudaAdamW&, void* stream);
  int (*adamw_bf16_moments)(const CudaAdamW&, void* stream);
  int (*adamw_8bit)(const CudaAdamW&, void* stream);
  int (*nf4_dequantize)(const CudaNf4&, void* stream);
  int (*split_planes)(const CudaPlanes&, void* stream);
  int (*join_planes)(const CudaPlanes&, void* stream);
  int (*dropout)(const CudaDropout&, void* stream);
  int (*float8_amax)(const CudaFloat8Amax&, void* stream);
  int (*float8_quantise)(const CudaFloat8Quantise&, void* stream);
  int (*float8_turn)(const CudaFloat8Turn&, void* stream);
  int (*float8_product)(const CudaFloat8Product&, void* stream);
  int (*squared_norm)(const CudaSquaredNorm&, void* stream);
  int (*value_scan)(const CudaValueScan&, void* stream);
  int (*response_stats)(const CudaResponseStats&, void* stream);
  int (*top_k)(const CudaTopK&, void* stream);
  const char* (*error_text)(int code);
  // cuDNN's, on ATen's current device; empty in a plugin that was built without cuDNN's frontend.
  // The first makes the plan of a shape, or finds it, and says what memory it works in:
  // kNotSupported where cuDNN has none. The second runs it in that memory, which is on a 16-byte
  // boundary. Both say in `why` what failed.
  int (*packed_attention_plan)(const PackedAttentionShape&, std::int64_t* workspace_bytes,
                               std::string* why) = nullptr;
  int (*packed_attention)(const CudaPackedAttention&, void* workspace, void* stream,
                          std::string* why) = nullptr;
  // cublasLt's, on ATen's current device. The first lists its best algorithms, the one that it
  // ranks highest before the others; the second runs one: kNotSupported where it does not take
  // that one for the product. The third names library, version and what else its algorithms
  // depend on.
  int (*product_algorithms)(const CudaProduct&, std::vector<ProductAlgorithm>*) = nullptr;
  int (*product)(const CudaProduct&, const ProductAlgorithm&, void* stream) = nullptr;
  std::string (*product_library)() = nullptr;
};

const CudaKernels& cuda_kernels();  // in the plugin only

}  // namespace wmtp::kernels
