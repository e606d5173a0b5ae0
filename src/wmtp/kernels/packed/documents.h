// Documents as the plans of cuDNN take them (cuda/packed_attention.h): sizes rounded up, so that
// few plans serve all micro-batches, and where each document lies as device data.
#pragma once
#include <cstdint>
#include <map>

#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

// B documents of at most S tokens, T tokens in all.
struct PackedBucket {
  std::int64_t documents = 0, length = 0, tokens = 0;
  bool operator==(const PackedBucket&) const = default;
};
// Each the next power of two; the length at least 128, the tokens at least 1024, the documents at
// most what a grid holds.
PackedBucket packed_bucket(std::int64_t num_documents, std::int64_t max_length,
                           std::int64_t tokens);

// What a reproducible backward stores of the scores' gradients, B H S S in two bytes each.
std::int64_t packed_score_bytes(const PackedBucket& bucket, std::int64_t num_heads);
inline constexpr std::int64_t kMostPackedScoreBytes = std::int64_t{1} << 30;

// int32 tensors for the documents of one micro-batch. They are made when first asked for and serve
// every layer. Places of the bucket that no document takes have no length and lie at the end.
class PackedDocuments {
 public:
  // `start`: int32 [D + 1] on the GPU, as Documents has it.
  PackedDocuments(Tensor start, std::int64_t max_length, std::int64_t tokens);

  const PackedBucket& bucket() const { return bucket_; }
  std::int64_t tokens() const { return tokens_; }
  // [B]. STREAM
  const Tensor& lengths();
  // [B + 1]: where each document begins, and the last one ends, in elements of rows that lie
  // `stride` apart. REQUIRES fits(stride). STREAM
  const Tensor& offsets(std::int64_t stride);
  // Whether int32 holds the end.
  bool fits(std::int64_t stride) const;

 private:
  const Tensor& start();

  Tensor start_, lengths_;
  PackedBucket bucket_;
  std::int64_t tokens_;
  bool is_filled_ = false;  // start_ has B + 1 elements
  std::map<std::int64_t, Tensor> offsets_;
};

}  // namespace wmtp::kernels
