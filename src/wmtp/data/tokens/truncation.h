// How a stored row is cut to max_length on reading.
#pragma once
#include <algorithm>
#include <cstdint>

#include "wmtp/data/options.h"
#include "wmtp/data/tokens/encode_row.h"

namespace wmtp::data {

// What is read of a stored row: its first `head` tokens and `tail` tokens from `tail_begin` on.
struct RowCut {
  std::uint32_t head = 0, tail_begin = 0, tail = 0;
  std::uint32_t prompt_len = 0;
  bool truncated = false, dropped = false, ends_with_eos = false;
  std::uint32_t lost_tokens = 0;

  std::uint32_t length() const { return head + tail; }
  // Targets of head k: max(0, n - max(P, k)). A row without one for head 1 is no sample.
  bool has_target() const { return !dropped && length() > std::max(prompt_len, 1u); }
};

struct StoredRow {
  std::uint32_t length = 0, prompt_len = 0;
  std::uint8_t flags = 0;  // TokenRowFlag
};

// right: the first T tokens. keep_response: the prompt after BOS is cut from the left, then the
// response from the right. drop: longer rows are no samples.
RowCut cut_row(const StoredRow& row, std::uint32_t max_length, Truncate truncate);

inline std::int64_t num_targets(std::uint32_t length, std::uint32_t prompt_len,
                                std::uint32_t head) {
  const std::uint32_t first = std::max(prompt_len, head);
  return length > first ? length - first : 0;
}

}  // namespace wmtp::data
