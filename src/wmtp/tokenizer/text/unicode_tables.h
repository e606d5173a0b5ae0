// Character tables in ranges, as the reference tokenizers classify (tools/gen_unicode_tables.py).
// unicode.h is the door to them.
#pragma once
#include <cstddef>
#include <cstdint>

namespace wmtp::tokenizer {

struct CodeRange {
  char32_t first, last;
};
struct LowercaseRun {
  char32_t first, last;
  std::uint32_t step;
  std::int32_t delta;
};

// Two-letter general categories in the order kCategoryStarts numbers them.
inline constexpr const char* kCategoryNames[] = {
    "Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl",
    "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"};
inline constexpr std::size_t kNumCategories = sizeof(kCategoryNames) / sizeof(kCategoryNames[0]);

extern const std::uint32_t kCategoryStarts[];
extern const std::size_t kCategoryStarts_count;
extern const CodeRange kWord[], kWordOniguruma[], kNumeric[], kPunctuation[], kNfcReacting[],
    kAnyFormReacting[];
extern const std::size_t kWord_count, kWordOniguruma_count, kNumeric_count, kPunctuation_count,
    kNfcReacting_count, kAnyFormReacting_count;
extern const LowercaseRun kLowercase[];
extern const std::size_t kLowercase_count;

}  // namespace wmtp::tokenizer
