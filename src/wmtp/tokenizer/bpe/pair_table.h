// (left id, right id) -> (rank, merged id): open addressing, linear probing, built once.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::tokenizer {

struct Merge {
  std::uint32_t rank = std::numeric_limits<std::uint32_t>::max();  // the default: no such merge
  TokenId id = -1;
};
inline constexpr std::uint32_t kNoRank = Merge{}.rank;

class PairTable {
 public:
  explicit PairTable(std::size_t num_pairs = 0)
      : shift_(64 - std::bit_width(num_pairs * 2 + 1)), slots_(std::size_t{1} << (64 - shift_)) {}

  // A pair inserted again takes the later rank, as in the reference. REQUIRES room as constructed.
  void insert(TokenId left, TokenId right, Merge merge) {
    Slot& slot = slots_[find_slot(key_of(left, right))];
    slot = {key_of(left, right), merge};
  }
  Merge find(TokenId left, TokenId right) const {
    return slots_[find_slot(key_of(left, right))].merge;
  }

 private:
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

  static std::uint64_t key_of(TokenId left, TokenId right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 |
           static_cast<std::uint32_t>(right);
  }
  std::size_t find_slot(std::uint64_t key) const {
    std::size_t at = (key * 0x9E3779B97F4A7C15ULL) >> shift_;
    while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  int shift_;
  std::vector<Slot> slots_;
};

}  // namespace wmtp::tokenizer
