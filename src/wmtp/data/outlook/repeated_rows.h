// Rows that say the same twice.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "wmtp/data/corpus.h"

namespace wmtp::data {

struct RepeatedRows {
  std::uint64_t num_rows = 0;      // looked at: those that can be drawn
  std::uint64_t num_repeated = 0;  // of them, with the tokens of an earlier one
  // The first repeated row and the one it repeats.
  std::optional<std::pair<std::uint32_t, std::uint32_t>> first;
};

// Compares the tokens as they are read, cut to max_length. Nothing for plain text, and for data of
// more than 2^28 tokens, which would take more than a moment. BLOCKS: reads every token.
std::optional<RepeatedRows> repeated_rows(const Corpus& corpus);

}  // namespace wmtp::data
