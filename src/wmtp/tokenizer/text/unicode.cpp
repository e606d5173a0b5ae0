#include "wmtp/tokenizer/text/unicode.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "wmtp/tokenizer/text/unicode_tables.h"

namespace wmtp::tokenizer {
namespace {

bool is_continuation(unsigned char byte) {
  return (byte & 0xC0) == 0x80;
}

// Length of the valid sequence at `at`, or 0; `*num_bad_bytes` is then the length of the longest
// part that could have begun one (what a decoder replaces by a single U+FFFD).
std::size_t sequence_length(std::string_view text, std::size_t at, std::size_t* num_bad_bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  *num_bad_bytes = 1;
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned char lowest = 0x80, highest = 0xBF;
  if (lead == 0xE0) lowest = 0xA0;
  if (lead == 0xED) highest = 0x9F;
  if (lead == 0xF0) lowest = 0x90;
  if (lead == 0xF4) highest = 0x8F;
  if (at + 1 >= text.size() || byte(at + 1) < lowest || byte(at + 1) > highest) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    *num_bad_bytes = i;
    if (at + i >= text.size() || !is_continuation(byte(at + i))) return 0;
  }
  return length;
}

constexpr std::size_t kNumCodes = 0x110000;

void mark(std::vector<std::uint8_t>& flags, const CodeRange* ranges, std::size_t count,
          CharFlag flag) {
  for (std::size_t i = 0; i < count; ++i)
    for (char32_t code = ranges[i].first; code <= ranges[i].last; ++code) flags[code] |= flag;
}

void mark_categories(std::vector<std::uint8_t>& flags, char letter, CharFlag flag) {
  for (std::size_t i = 0; i < kCategoryStarts_count; ++i) {
    if (kCategoryNames[kCategoryStarts[i] & 0xFF][0] != letter) continue;
    const std::size_t end = i + 1 < kCategoryStarts_count ? kCategoryStarts[i + 1] >> 8 : kNumCodes;
    for (std::size_t code = kCategoryStarts[i] >> 8; code < end; ++code) flags[code] |= flag;
  }
}

std::vector<std::uint8_t> all_flags() {
  std::vector<std::uint8_t> flags(kNumCodes);
  mark_categories(flags, 'L', kLetter);
  mark_categories(flags, 'N', kNumber);
  mark(flags, kWord, kWord_count, kWordChar);
  mark(flags, kNumeric, kNumeric_count, kNumericChar);
  mark(flags, kPunctuation, kPunctuation_count, kPunctuationChar);
  mark(flags, kNfcReacting, kNfcReacting_count, kNfcActive);
  mark(flags, kAnyFormReacting, kAnyFormReacting_count, kFormsActive);
  for (char32_t code = 0; code <= 0x3000; ++code)
    if (is_white_space(code)) flags[code] |= kWhiteSpace;
  return flags;
}

}  // namespace

CharTable::CharTable() {
  const std::vector<std::uint8_t> flags = all_flags();
  std::map<std::string_view, std::uint16_t> known;
  for (std::size_t block = 0; block < kNumCodes / 256; ++block) {
    const std::string_view bytes(reinterpret_cast<const char*>(flags.data()) + block * 256, 256);
    const auto [entry, is_new] = known.emplace(bytes, static_cast<std::uint16_t>(known.size()));
    if (is_new) blocks_.insert(blocks_.end(), bytes.begin(), bytes.end());
    block_of_.push_back(entry->second);
  }
}

const CharTable& CharTable::instance() {
  static const CharTable table;
  return table;
}

void append_lowercase(char32_t code, std::string& out) {
  if (code == 0x130) {
    out += "i\xCC\x87";
    return;
  }
  const LowercaseRun* end = kLowercase + kLowercase_count;
  const LowercaseRun* run = std::upper_bound(
      kLowercase, end, code, [](char32_t value, const LowercaseRun& r) { return value < r.first; });
  if (run != kLowercase) {
    --run;
    if (code <= run->last && (code - run->first) % run->step == 0)
      return append_utf8(code + static_cast<char32_t>(run->delta), out);
  }
  append_utf8(code, out);
}

std::size_t valid_utf8_prefix(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080ULL;
  std::size_t at = 0, num_bad_bytes = 0;
  while (at < text.size()) {
    std::uint64_t word = kHighBits;
    if (at + 8 <= text.size()) std::memcpy(&word, text.data() + at, 8);
    if ((word & kHighBits) == 0) {
      at += 8;
      continue;
    }
    const std::size_t length = sequence_length(text, at, &num_bad_bytes);
    if (length == 0) return at;
    at += length;
  }
  return at;
}

DecodedChar decode_char(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F),
          4};
}

DecodedChar decode_char_before(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && is_continuation(static_cast<unsigned char>(text[at]))) --at;
  return decode_char(text, at);
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t valid = valid_utf8_prefix(bytes);
    out.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    std::size_t num_bad_bytes = 0;
    sequence_length(bytes, 0, &num_bad_bytes);
    out += kReplacementChar;
    bytes.remove_prefix(num_bad_bytes);
  }
  return out;
}

bool is_white_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 0x09 && code <= 0x0D);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_blank(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const DecodedChar decoded = decode_char(text, at);
    if (!is_white_space(decoded.code)) return false;
    at += decoded.num_bytes;
  }
  return true;
}

std::size_t word_end(std::string_view text, std::size_t at) {
  while (text.substr(at).starts_with(kMetaspace)) at += kMetaspace.size();
  return std::min(text.find(kMetaspace, at), text.size());
}

}  // namespace wmtp::tokenizer
