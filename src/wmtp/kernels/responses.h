// Whose response each token belongs to: what the per-document ops read of a packed micro-batch.
// N tokens of D documents end to end. A document's response are its positions with mask 1; T* is
// the last of them, t0 the first. A document may have none (a filler, a truncated sample).
#pragma once
#include <cstdint>

#include "wmtp/kernels/support/checks.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

inline constexpr DType kMaskType = c10::ScalarType::Byte;

// BORROWS. All on one device.
struct Responses {
  Tensor doc_start_D1;  // int32 [D + 1]: cumulative, from 0 to N
  Tensor document_N;    // int32: document of each token
  Tensor mask_N;        // uint8: m, 1 = response token
  Tensor reward_D;      // R, dtype of the values; undefined where no formula reads it

  std::int64_t num_docs() const { return doc_start_D1.size(0) - 1; }
  std::int64_t num_tokens() const { return mask_N.size(0); }
};

// Shapes, types and places of all but the reward, against `values_N`.
void check_responses(const ArgChecks& demands, const Responses& responses, const Tensor& values_N);

}  // namespace wmtp::kernels
