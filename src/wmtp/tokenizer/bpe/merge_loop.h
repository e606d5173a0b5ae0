// Byte-pair merging of one piece: repeatedly the pair of lowest rank, leftmost on a tie.
#pragma once
#include <vector>

#include "wmtp/tokenizer/bpe/pair_table.h"

namespace wmtp::tokenizer {

// Merges `ids` in place. Pieces of a few dozen symbols take a plain scan, longer ones a heap: the
// cost stays O(n log n) for hostile input.
void merge_all(const PairTable& merges, std::vector<TokenId>& ids);

}  // namespace wmtp::tokenizer
