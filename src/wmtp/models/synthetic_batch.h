// Batches of random tokens for benchmarks and tests, drawn from the counter-based generator: the
// same for any world size and device.
#pragma once
#include <cstdint>
#include <vector>

#include "wmtp/models/upload.h"

namespace wmtp::models {

struct SyntheticShape {
  int batch = 4, seq = 512;
  std::int64_t vocab_size = 512;
  bool mixed = false;  // rows of seq/8..seq tokens, packed; the first half of each row is prompt
};

struct SyntheticBatch {
  std::vector<std::int32_t> tokens, positions, doc_start;
  std::vector<std::uint8_t> target_mask;
  std::vector<std::uint64_t> sample_ids;  // of the run: 2^20 index + row
  TokenView view() const { return {tokens, positions, doc_start, target_mask, sample_ids}; }
};

// `index`: number of the micro-batch in the run, counted from 0 over all ranks.
SyntheticBatch synthetic_batch(const SyntheticShape& shape, std::uint64_t seed,
                               std::uint64_t index);

}  // namespace wmtp::models
