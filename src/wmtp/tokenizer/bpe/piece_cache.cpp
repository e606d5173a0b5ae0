#include "wmtp/tokenizer/bpe/piece_cache.h"

#include <array>
#include <atomic>
#include <utility>

namespace wmtp::tokenizer {

std::uint64_t next_model_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

void PieceCache::reset(std::uint64_t model_number) {
  model_number_ = model_number;
  entries_.assign(std::size_t{1} << kIndexBits, Entry{});
}

PieceCache& PieceCache::local(std::uint64_t model_number) {
  thread_local std::array<PieceCache, 2> caches;
  if (caches[0].model_number_ != model_number) {
    std::swap(caches[0], caches[1]);
    if (caches[0].model_number_ != model_number) caches[0].reset(model_number);
  }
  return caches[0];
}

}  // namespace wmtp::tokenizer
