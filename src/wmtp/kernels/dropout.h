// Inverted dropout whose mask any rank can draw again: the bit of an element depends on the seed,
// the document's stream (step, sample and module hashed by the caller), the token's place in the
// document and the feature alone. So recomputation, packing and any split over ranks see the same
// mask.
//   keep iff (word + 0.5) 2^-32 >= p, word = lane e % 4 of Philox(seed, stream, e / 4), e =
//   position * I + feature
// N tokens, I features, D documents.
#pragma once
#include <cstdint>

#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

struct DropoutMask {
  double p = 0;
  std::uint64_t seed = 0;
  Tensor streams_D;   // int64: stream ids of the documents
  Tensor document_N;  // int32: document of each token
  Tensor position_N;  // int32: its place in the document
};

// out = x * keep / (1 - p); out may be x.
void dropout(const Tensor& x_NI, const DropoutMask& mask, const Tensor& out_NI);

}  // namespace wmtp::kernels
