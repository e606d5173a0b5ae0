#include "wmtp/tokenizer/text/code_ranges.h"

#include <algorithm>

#include "wmtp/tokenizer/text/unicode.h"

namespace wmtp::tokenizer {

CodeRanges category_ranges(std::string_view name) {
  CodeRanges ranges;
  for (std::size_t i = 0; i < kCategoryStarts_count; ++i) {
    if (!std::string_view(kCategoryNames[kCategoryStarts[i] & 0xFF]).starts_with(name)) continue;
    const char32_t first = kCategoryStarts[i] >> 8;
    if (first == 0xD800) continue;  // surrogates: not in text, refused by PCRE2
    const char32_t last =
        i + 1 < kCategoryStarts_count ? (kCategoryStarts[i + 1] >> 8) - 1 : 0x10FFFF;
    if (!ranges.empty() && ranges.back().last + 1 == first)
      ranges.back().last = last;
    else
      ranges.push_back({first, last});
  }
  return ranges;
}

CodeRanges white_space_ranges() {
  CodeRanges ranges;
  for (char32_t code = 0; code <= 0x3000; ++code)
    if (is_white_space(code)) ranges.push_back({code, code});
  return ranges;
}

CodeRanges word_ranges() {
  return {kWordOniguruma, kWordOniguruma + kWordOniguruma_count};
}

CodeRanges complement(const CodeRanges& ranges) {
  CodeRanges result;
  char32_t next = 0;
  const auto add = [&](char32_t first, char32_t last) {
    if (first < 0xD800 && last > 0xDFFF) {
      result.push_back({first, 0xD7FF});
      first = 0xE000;
    }
    if (first <= last) result.push_back({first, last});
  };
  for (const CodeRange& range : ranges) {
    if (range.first > next) add(next, range.first - 1);
    next = range.last + 1;
  }
  if (next <= 0x10FFFF) add(next, 0x10FFFF);
  return result;
}

bool contains(const CodeRanges& ranges, char32_t code) {
  const auto after = std::partition_point(ranges.begin(), ranges.end(),
                                          [&](const CodeRange& r) { return r.last < code; });
  return after != ranges.end() && after->first <= code;
}

}  // namespace wmtp::tokenizer
