#include "wmtp/tokenizer/text/alphabet.h"

#include <algorithm>
#include <map>

#include "wmtp/core/utf8.h"
#include "wmtp/tokenizer/text/unicode.h"

namespace wmtp::tokenizer {
namespace {

constexpr char32_t kFirstFolded = 0x80, kLastCode = 0x10FFFF;
constexpr std::size_t kBlock = 256;

}  // namespace

// Every set cuts the kinds it meets in two: inside and outside.
Alphabet::Alphabet(std::span<const CodeRanges> sets) {
  std::vector<std::uint16_t> kinds(kLastCode + 1);
  for (char32_t code = kFirstFolded; code <= kLastCode; ++code)
    kinds[code] = static_cast<std::uint16_t>(code < 0x800 ? 0 : code < 0x10000 ? 1 : 2);
  std::uint16_t num_kinds = 3;
  for (const CodeRanges& set : sets) {
    std::map<std::uint16_t, std::uint16_t> inside;
    for (const CodeRange& range : set)
      for (char32_t code = std::max(range.first, kFirstFolded); code <= range.last; ++code) {
        const auto [kind, is_new] = inside.emplace(kinds[code], num_kinds);
        if (is_new) ++num_kinds;
        kinds[code] = kind->second;
      }
  }
  letters_.assign(num_kinds, 0);
  for (char32_t code = kLastCode; code >= kFirstFolded; --code) letters_[kinds[code]] = code;
  store(kinds);
}

void Alphabet::store(const std::vector<std::uint16_t>& kinds) {
  std::map<std::vector<std::uint16_t>, std::uint16_t> known;
  for (auto at = kinds.begin(); at != kinds.end(); at += kBlock) {
    const std::vector<std::uint16_t> block(at, at + kBlock);
    const auto [entry, is_new] = known.emplace(block, static_cast<std::uint16_t>(known.size()));
    if (is_new) kinds_.insert(kinds_.end(), block.begin(), block.end());
    block_of_.push_back(entry->second);
  }
}

std::string Alphabet::fold(std::string_view text) const {
  if (letters_.empty()) return std::string(text);
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const DecodedChar c = decode_char(text, at);
    at += c.num_bytes;
    append_utf8(c.code < kFirstFolded
                    ? c.code
                    : letters_[kinds_[block_of_[c.code / kBlock] * kBlock + c.code % kBlock]],
                out);
  }
  return out;
}

CodeRanges Alphabet::fold(const CodeRanges& set) const {
  if (letters_.empty()) return set;
  CodeRanges left;
  for (const CodeRange& range : set)
    if (range.first < kFirstFolded)
      left.push_back({range.first, std::min<char32_t>(range.last, kFirstFolded - 1)});
  for (const char32_t letter : letters_)
    if (letter != 0 && contains(set, letter)) left.push_back({letter, letter});
  return left;
}

}  // namespace wmtp::tokenizer
