#include "wmtp/data/outlook/repeated_rows.h"

#include <unordered_map>
#include <vector>

namespace wmtp::data {
namespace {

constexpr std::uint64_t kMostTokens = std::uint64_t{1} << 28;

// FNV-1a, a token at a time; rows with the same one are compared.
std::uint64_t hash_of(std::span<const std::int32_t> ids) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::int32_t id : ids) hash = (hash ^ static_cast<std::uint32_t>(id)) * 0x100000001b3;
  return hash;
}

void read_tokens(const Corpus& corpus, std::uint32_t row, std::vector<std::int32_t>& ids) {
  const RowCut cut = corpus.cut(row);
  ids.resize(cut.length());
  corpus.copy_row(row, cut, ids);
}

}  // namespace

std::optional<RepeatedRows> repeated_rows(const Corpus& corpus) {
  if (corpus.format() == Format::text || corpus.num_tokens() > kMostTokens) return std::nullopt;
  RepeatedRows out;
  std::unordered_multimap<std::uint64_t, std::uint32_t> seen;
  std::vector<std::int32_t> ids, earlier;
  for (std::uint32_t row = 0; row < corpus.num_rows(); ++row) {
    if (!corpus.table().is_candidate(row)) continue;
    ++out.num_rows;
    read_tokens(corpus, row, ids);
    const std::uint64_t hash = hash_of(ids);
    std::optional<std::uint32_t> same;
    for (auto [at, end] = seen.equal_range(hash); at != end && !same; ++at) {
      read_tokens(corpus, at->second, earlier);
      if (earlier == ids) same = at->second;
    }
    if (!same) {
      seen.emplace(hash, row);
      continue;
    }
    if (out.num_repeated++ == 0) out.first = {row, *same};
  }
  return out;
}

}  // namespace wmtp::data
