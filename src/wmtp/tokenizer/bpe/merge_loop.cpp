#include "wmtp/tokenizer/bpe/merge_loop.h"

#include <algorithm>
#include <array>
#include <queue>

namespace wmtp::tokenizer {
namespace {

constexpr std::size_t kMaxScanned = 64;

// Ranks stand in an array of their own, so that the search for the lowest is a vector minimum.
void merge_by_scan(const PairTable& merges, std::vector<TokenId>& ids) {
  std::array<std::uint32_t, kMaxScanned> ranks;
  std::array<TokenId, kMaxScanned> products;
  std::size_t count = ids.size();
  const auto look_up = [&](std::size_t i) {
    const Merge merge = merges.find(ids[i], ids[i + 1]);
    ranks[i] = merge.rank;
    products[i] = merge.id;
  };
  for (std::size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    const auto lowest = std::min_element(ranks.begin(), ranks.begin() + (count - 1));
    if (*lowest == kNoRank) break;
    const auto at = static_cast<std::size_t>(lowest - ranks.begin());
    ids[at] = products[at];
    std::copy(ids.begin() + at + 2, ids.begin() + count, ids.begin() + at + 1);
    if (at + 2 < count) {
      std::copy(ranks.begin() + at + 2, ranks.begin() + (count - 1), ranks.begin() + at + 1);
      std::copy(products.begin() + at + 2, products.begin() + (count - 1),
                products.begin() + at + 1);
    }
    --count;
    if (at > 0) look_up(at - 1);
    if (at + 1 < count) look_up(at);
  }
  ids.resize(count);
}

struct Symbol {
  TokenId id;
  std::int64_t previous, next;  // -1 = none
};

struct Candidate {
  std::uint32_t rank;
  std::int64_t at;
  TokenId product;
  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : at > other.at;
  }
};

class HeapMerger {
 public:
  HeapMerger(const PairTable& merges, const std::vector<TokenId>& ids) : merges_(merges) {
    const auto count = static_cast<std::int64_t>(ids.size());
    symbols_.reserve(ids.size());
    for (std::int64_t i = 0; i < count; ++i)
      symbols_.push_back({ids[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
    for (std::int64_t i = 0; i + 1 < count; ++i) push(i);
  }

  void run() {
    while (!heap_.empty()) {
      const Candidate top = heap_.top();
      heap_.pop();
      if (!is_current(top)) continue;
      Symbol& left = symbol(top.at);
      Symbol& right = symbol(left.next);
      left.id = top.product;
      left.next = right.next;
      right.id = kGone;
      if (left.next >= 0) symbol(left.next).previous = top.at;
      if (left.previous >= 0) push(left.previous);
      push(top.at);
    }
  }

  void write(std::vector<TokenId>& ids) const {
    ids.clear();
    for (std::int64_t i = 0; i >= 0; i = symbols_[static_cast<std::size_t>(i)].next)
      ids.push_back(symbols_[static_cast<std::size_t>(i)].id);
  }

 private:
  static constexpr TokenId kGone = -1;

  Symbol& symbol(std::int64_t at) { return symbols_[static_cast<std::size_t>(at)]; }

  void push(std::int64_t at) {
    const Symbol& left = symbol(at);
    if (left.next < 0) return;
    const Merge merge = merges_.find(left.id, symbol(left.next).id);
    if (merge.rank != kNoRank) heap_.push({merge.rank, at, merge.id});
  }

  bool is_current(const Candidate& candidate) {
    const Symbol& left = symbol(candidate.at);
    if (left.id == kGone || left.next < 0) return false;
    const Merge merge = merges_.find(left.id, symbol(left.next).id);
    return merge.rank != kNoRank && merge.id == candidate.product;
  }

  const PairTable& merges_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap_;
};

}  // namespace

void merge_all(const PairTable& merges, std::vector<TokenId>& ids) {
  if (ids.size() <= kMaxScanned) return merge_by_scan(merges, ids);
  HeapMerger merger(merges, ids);
  merger.run();
  merger.write(ids);
}

}  // namespace wmtp::tokenizer
