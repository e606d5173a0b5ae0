// A micro-batch from the host's arrays to what the model reads on the device: tokens, documents,
// RoPE angles, and per head the rows that have a target.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "wmtp/model/batch.h"

namespace wmtp::training {

// BORROWS. N tokens, D documents end to end; padded rows are documents of equal length.
struct TokenView {
  std::span<const std::int32_t> tokens, positions;  // [N]
  std::span<const std::int32_t> doc_start;          // [D + 1]
  std::span<const std::uint8_t> target_mask;        // [N], 1 where the token is a target
};

// Head k (from 1) has a target at row i iff i + k lies in the same document and is masked in.
std::vector<std::int64_t> count_targets(const TokenView& view, int num_heads);

// `inv_freq_F`: fp32 (fp64) on the device. No head targets for num_heads = 0.
model::Batch upload(const TokenView& view, int num_heads, const Tensor& inv_freq_F);

}  // namespace wmtp::training
