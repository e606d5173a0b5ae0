#include <fmt/format.h>

#include <cctype>
#include <vector>

#include "wmtp/core/error.h"
#include "wmtp/tokenizer/text/regex.h"
#include "wmtp/tokenizer/text/unicode.h"
#include "wmtp/tokenizer/text/unicode_tables.h"

namespace wmtp::tokenizer {
namespace {

using Ranges = std::vector<CodeRange>;

Ranges category_ranges(std::string_view name) {
  Ranges ranges;
  for (std::size_t i = 0; i < kCategoryStarts_count; ++i) {
    if (!std::string_view(kCategoryNames[kCategoryStarts[i] & 0xFF]).starts_with(name)) continue;
    const char32_t first = kCategoryStarts[i] >> 8;
    if (first == 0xD800) continue;  // surrogates: not in text, refused by PCRE2
    const char32_t last =
        i + 1 < kCategoryStarts_count ? (kCategoryStarts[i + 1] >> 8) - 1 : 0x10FFFF;
    ranges.push_back({first, last});
  }
  return ranges;
}

Ranges white_space_ranges() {
  Ranges ranges;
  for (char32_t code = 0; code <= 0x3000; ++code)
    if (is_white_space(code)) ranges.push_back({code, code});
  return ranges;
}

Ranges complement(const Ranges& ranges) {
  Ranges result;
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

std::string class_body(const Ranges& ranges) {
  std::string body;
  for (const CodeRange& range : ranges)
    body += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", std::uint32_t{range.first},
                        std::uint32_t{range.last});
  return body;
}

class Translator {
 public:
  Translator(std::string_view pattern, std::string_view place) : in_(pattern), place_(place) {}

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\')
        escape();
      else if (c == '[')
        open_class();
      else if (c == ']' && in_class_)
        close_class();
      else if (c == '(' && !in_class_)
        group();
      else
        plain(c);
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(ErrorKind::config, "tokenizer",
                fmt::format("{}: the pattern uses {} at byte {}, which is not supported", place_,
                            what, at_),
                "patterns may use groups, alternatives, quantifiers, classes, \\s \\d \\w \\p{..} "
                "and (?i:..)");
  }

  void plain(char c) {
    if (in_class_ && c == '&' && in_.substr(at_).starts_with("&&")) refuse("'&&' in a class");
    if (!in_class_ && c == '}' && at_ + 1 < in_.size() && in_[at_ + 1] == '+')
      refuse("'}+', which Oniguruma reads as a repetition");
    out_ += c;
    ++at_;
  }

  void open_class() {
    if (in_class_) refuse("a class in a class");
    in_class_ = true;
    out_ += '[';
    ++at_;
    if (at_ < in_.size() && in_[at_] == '^') {
      out_ += '^';
      ++at_;
    }
    if (at_ < in_.size() && in_[at_] == ']') refuse("']' as the first character of a class");
  }

  void close_class() {
    in_class_ = false;
    out_ += ']';
    ++at_;
  }

  void group() {
    const std::string_view rest = in_.substr(at_);
    for (const std::string_view known :
         {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?i)"}) {
      if (!rest.starts_with(known)) continue;
      out_ += known;
      at_ += known.size();
      return;
    }
    if (rest.starts_with("(?") || rest.starts_with("(*"))
      refuse(fmt::format("'{}'", rest.substr(0, 3)));
    out_ += "(?:";  // captures are never read
    ++at_;
  }

  void emit(const Ranges& ranges, bool negated) {
    const std::string body = class_body(negated ? complement(ranges) : ranges);
    if (in_class_)
      out_ += body;
    else
      (out_ += '[') += body + ']';
  }

  void escape() {
    if (at_ + 1 >= in_.size()) refuse("a '\\' at the end");
    const char c = in_[at_ + 1];
    if (c == 'p' || c == 'P') return property(c == 'P');
    if (c == 'x') return hex_escape();
    const auto word = [] { return Ranges(kWordOniguruma, kWordOniguruma + kWordOniguruma_count); };
    switch (c) {
      case 's':
      case 'S':
        emit(white_space_ranges(), c == 'S');
        break;
      case 'd':
      case 'D':
        emit(category_ranges("Nd"), c == 'D');
        break;
      case 'w':
      case 'W':
        emit(word(), c == 'W');
        break;
      case 'r':
      case 'n':
      case 't':
      case 'f':
      case 'A':
      case 'z':
        (out_ += '\\') += c;
        break;
      default:
        if (std::isalnum(static_cast<unsigned char>(c))) refuse(fmt::format("'\\{}'", c));
        if (static_cast<unsigned char>(c) < 0x80) out_ += '\\';
        out_ += c;
    }
    at_ += 2;
  }

  // \p{Name}, \p{^Name}, \P{Name}; names are general categories, one or two letters.
  void property(bool negated) {
    const std::size_t close = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || close == std::string_view::npos)
      refuse("'\\p' without braces");
    std::string_view name = in_.substr(at_ + 3, close - at_ - 3);
    if (name.starts_with("^")) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const Ranges ranges = name.empty() || name.size() > 2 ? Ranges{} : category_ranges(name);
    if (ranges.empty()) refuse(fmt::format("'\\p{{{}}}'", name));
    emit(ranges, negated);
    at_ = close + 1;
  }

  // \xHH and \x{H..}: PCRE2 reads both alike.
  void hex_escape() {
    std::size_t end = at_ + 2;
    if (end < in_.size() && in_[end] == '{') {
      end = in_.find('}', end);
      if (end == std::string_view::npos) refuse("'\\x{' without '}'");
      ++end;
    } else {
      while (end < in_.size() && end < at_ + 4 &&
             std::isxdigit(static_cast<unsigned char>(in_[end])))
        ++end;
    }
    out_ += in_.substr(at_, end - at_);
    at_ = end;
  }

  std::string_view in_, place_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

std::string translate_pattern(std::string_view pattern, std::string_view place) {
  return Translator(pattern, place).run();
}

}  // namespace wmtp::tokenizer
