// A bounded memory of pieces already encoded: direct-mapped, one cache line per piece. Text repeats
// its words so often that nine of ten pieces end here. One per thread and model (`local`).
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::tokenizer {

// A number for each model of the process: the owner's name in PieceCache::local.
std::uint64_t next_model_number();

class PieceCache {
 public:
  static constexpr std::size_t kMaxPieceBytes = 31;
  static constexpr std::size_t kMaxIds = 7;

  struct Key {
    std::uint64_t words[4];
    bool operator==(const Key&) const = default;
  };
  struct alignas(64) Entry {
    Key key{};  // all zero: empty (a real key holds its length)
    std::uint32_t num_ids = 0;
    TokenId ids[kMaxIds] = {};
  };

  // REQUIRES 0 < piece.size() <= kMaxPieceBytes. `readable_bytes`: how many bytes may be read from
  // piece.data() on, which spares a copy byte by byte where there are 32.
  static Key key_of(std::string_view piece, std::size_t readable_bytes) {
    Key key{};
    if (readable_bytes >= sizeof(Key)) {
      std::memcpy(&key, piece.data(), sizeof(Key));
      for (std::size_t i = 0; i < 4; ++i) key.words[i] &= mask_of(piece.size(), i);
    } else {
      std::memcpy(&key, piece.data(), piece.size());
    }
    key.words[3] |= std::uint64_t{piece.size()} << 56;
    return key;
  }
  Entry& slot(const Key& key) {
    const std::uint64_t mixed = (key.words[0] ^ 0x9E3779B97F4A7C15ULL) * 0xBF58476D1CE4E5B9ULL +
                                (key.words[1] ^ key.words[3] >> 56) * 0x94D049BB133111EBULL +
                                (key.words[2] ^ key.words[3]) * 0xD6E8FEB86659FD93ULL;
    return entries_[(mixed ^ mixed >> 29) * 0x9E3779B97F4A7C15ULL >> (64 - kIndexBits)];
  }
  void store(Entry& entry, const Key& key, std::span<const TokenId> ids) {
    if (ids.size() > kMaxIds) return;
    entry.key = key;
    entry.num_ids = static_cast<std::uint32_t>(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) entry.ids[i] = ids[i];
  }

  // The calling thread's cache for the model with this number (never 0, never used twice in a
  // process). A thread keeps the caches of the last two models it used.
  static PieceCache& local(std::uint64_t model_number);

 private:
  static constexpr int kIndexBits = 15;

  static std::uint64_t mask_of(std::size_t num_bytes, std::size_t word) {
    const std::size_t first = word * 8;
    if (num_bytes >= first + 8) return ~std::uint64_t{0};
    return num_bytes <= first ? 0 : (std::uint64_t{1} << (num_bytes - first) * 8) - 1;
  }
  void reset(std::uint64_t model_number);

  std::uint64_t model_number_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace wmtp::tokenizer
