// Sets of code points as ascending ranges that do not touch, from the tables of unicode_tables.h.
#pragma once
#include <string_view>
#include <vector>

#include "wmtp/tokenizer/text/unicode_tables.h"

namespace wmtp::tokenizer {

using CodeRanges = std::vector<CodeRange>;

// General category by one letter or two ("L", "Lu"); empty where there is none of that name.
// Surrogates, which no text holds, are left out of all of these.
CodeRanges category_ranges(std::string_view name);
CodeRanges white_space_ranges();  // \s
CodeRanges word_ranges();         // \w as Oniguruma has it
CodeRanges complement(const CodeRanges& ranges);

bool contains(const CodeRanges& ranges, char32_t code);

}  // namespace wmtp::tokenizer
