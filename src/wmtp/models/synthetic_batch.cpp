#include "wmtp/models/synthetic_batch.h"

#include <fmt/format.h>

#include "wmtp/core/rng.h"

namespace wmtp::models {

SyntheticBatch synthetic_batch(const SyntheticShape& shape, std::uint64_t seed,
                               std::uint64_t index) {
  RngStream rng(seed, fmt::format("synthetic/{}", index));
  SyntheticBatch batch;
  batch.doc_start.push_back(0);
  for (int row = 0; row < shape.batch; ++row) {
    const int shortest = std::max(1, shape.seq / 8);
    const int length =
        shape.mixed
            ? shortest +
                  static_cast<int>(rng.below(static_cast<std::uint64_t>(shape.seq - shortest + 1)))
            : shape.seq;
    const int prompt = shape.mixed ? length / 2 : 0;
    for (int i = 0; i < length; ++i) {
      batch.tokens.push_back(
          static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(shape.vocab_size))));
      batch.positions.push_back(i);
      batch.target_mask.push_back(i >= prompt);
    }
    batch.doc_start.push_back(static_cast<std::int32_t>(batch.tokens.size()));
    batch.sample_ids.push_back((index << 20) + static_cast<std::uint64_t>(row));
  }
  return batch;
}

}  // namespace wmtp::models
