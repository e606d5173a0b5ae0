#include "wmtp/kernels/packed/documents.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "wmtp/core/error.h"

namespace wmtp::kernels {
namespace {

constexpr std::int64_t kShortestBucket = 128;  // cuDNN refuses plans of one token
constexpr std::int64_t kFewestTokens = 1024;  // Transformer Engine's: a tile may have more than all
constexpr std::int64_t kMostDocuments = 65535;  // the second and third extent of a CUDA grid

std::int64_t power_of_two(std::int64_t count) {
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 1))));
}

}  // namespace

PackedBucket packed_bucket(std::int64_t num_documents, std::int64_t max_length,
                           std::int64_t tokens) {
  return {.documents = std::min(power_of_two(num_documents), kMostDocuments),
          .length = std::max(power_of_two(max_length), kShortestBucket),
          .tokens = std::max(power_of_two(tokens), kFewestTokens)};
}

std::int64_t packed_score_bytes(const PackedBucket& bucket, std::int64_t num_heads) {
  return 2 * bucket.documents * num_heads * bucket.length * bucket.length;
}

PackedDocuments::PackedDocuments(Tensor start, std::int64_t max_length, std::int64_t tokens)
    : start_(std::move(start)),
      bucket_(packed_bucket(start_.numel() - 1, max_length, tokens)),
      tokens_(tokens) {}

const Tensor& PackedDocuments::start() {
  if (!is_filled_)
    start_ = at::constant_pad_nd(start_, {0, bucket_.documents + 1 - start_.numel()}, tokens_);
  is_filled_ = true;
  return start_;
}

const Tensor& PackedDocuments::lengths() {
  if (!lengths_.defined())
    lengths_ =
        at::sub(start().narrow(0, 1, bucket_.documents), start().narrow(0, 0, bucket_.documents));
  return lengths_;
}

const Tensor& PackedDocuments::offsets(std::int64_t stride) {
  WMTP_CHECK(fits(stride), "packed attention: an offset beyond int32");
  Tensor& found = offsets_[stride];
  if (!found.defined()) found = at::mul(start(), stride);
  return found;
}

bool PackedDocuments::fits(std::int64_t stride) const {
  return tokens_ * stride <= std::numeric_limits<std::int32_t>::max();
}

}  // namespace wmtp::kernels
