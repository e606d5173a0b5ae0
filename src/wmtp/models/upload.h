// A micro-batch from the host's arrays to what the model reads on the device: tokens, documents,
// RoPE angles, and per head the rows that have a target.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wmtp/model/batch.h"

namespace wmtp::models {

// BORROWS. N tokens, D documents end to end; padded rows are documents of equal length.
struct TokenView {
  std::span<const std::int32_t> tokens, positions;  // [N]
  std::span<const std::int32_t> doc_start;          // [D + 1]
  std::span<const std::uint8_t> target_mask;        // [N], 1 where the token is a target
  std::span<const std::uint64_t> sample_ids = {};   // [D]; read for dropout alone
};

// With the sample, what every dropout mask of the micro-batch is drawn from: the same whoever runs
// the sample, and in whatever company.
struct DropoutKey {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::span<const std::string> sites = {};  // BORROWS: names of all that draw one
};

// Head k (from 1) has a target at row i iff i + k lies in the same document and is masked in.
std::vector<std::int64_t> count_targets(const TokenView& view, int num_heads);

// exact: as the tokens are. rounded: documents as kernels::make_rounded_documents has them, and as
// many rows for every head, a multiple of an eighth of the tokens: rows without a target fill up.
// So few shapes come, and the losses and gradients are the same but for the order of sums.
enum class BatchShape { exact, rounded };

// `inv_freq_F`: fp32 (fp64) on the device. No head targets for num_heads = 0. `dropout` absent:
// evaluation; with sites: REQUIRES a sample id for every document.
model::Batch upload_tokens(const TokenView& view, int num_heads, const Tensor& inv_freq_F,
                           const std::optional<DropoutKey>& dropout = {},
                           BatchShape shape = BatchShape::exact);

}  // namespace wmtp::models
