// Causal attention inside documents: ATen's kernels called directly, no autograd. Query head i
// reads key/value head floor(i * g / h). N tokens of all documents end to end, H query heads, G
// key/value heads, E head features.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

class PackedDocuments;  // packed/documents.h

struct Documents {
  std::vector<std::int32_t> start;  // D + 1 cumulative starts, start[0] = 0, start[D] = N
  Tensor start_device;              // the same, int32 on the tensors' device (undefined on CPU)
  std::int32_t max_length = 0;      // none is longer
  bool uniform = false;             // all documents have max_length tokens
  std::shared_ptr<PackedDocuments> packed;  // on a GPU
};
Documents make_documents(std::vector<std::int32_t> start, c10::Device device);
// The same documents with empty ones behind them, so that few numbers of them come, and the bound
// of their lengths rounded up (packed_bucket). Documents of one length stay as they are.
Documents make_rounded_documents(std::vector<std::int32_t> start, c10::Device device);
// To be called after the numbers of start_device were changed: what was derived of them on the
// device is derived again.
void starts_changed(Documents& documents);

// efficient: on a GPU fp32 and heads above 256 features, where cuDNN and flash do not compute.
// cudnn, asked for: ATen's for documents of one length, else cudnn_packed (packed/attention.h), and
// flash for documents that it does not take.
enum class AttentionChoice { automatic, cudnn, cudnn_packed, flash, reference, efficient };
inline constexpr std::int64_t kLargestForFlash = 256;  // features of a head, on a GPU

struct AttentionOptions {
  AttentionChoice choice = AttentionChoice::automatic;
  bool deterministic = false;
};

struct AttentionResult {
  Tensor out_NHE;          // contiguous
  Tensor lse, rng0, rng1;  // for the backward of the kernel that was chosen
  AttentionChoice used = AttentionChoice::automatic;
};
AttentionResult attention(const Tensor& q_NHE, const Tensor& k_NGE, const Tensor& v_NGE,
                          const Documents& documents, const AttentionOptions& options);

struct AttentionGrads {
  Tensor dq_NHE, dk_NGE, dv_NGE;
};
struct AttentionBackward {
  Tensor dout_NHE, q_NHE, k_NGE, v_NGE;
  const AttentionResult* forward = nullptr;  // BORROWS
  const Documents* documents = nullptr;      // BORROWS
  AttentionOptions options;
};
AttentionGrads attention_backward(const AttentionBackward& args);

}  // namespace wmtp::kernels
