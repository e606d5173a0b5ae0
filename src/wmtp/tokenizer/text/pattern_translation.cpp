#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <variant>
#include <vector>

#include "wmtp/core/error.h"
#include "wmtp/tokenizer/text/code_ranges.h"
#include "wmtp/tokenizer/text/regex.h"
#include "wmtp/tokenizer/text/unicode.h"

namespace wmtp::tokenizer {
namespace {

// Beyond this many the pattern keeps its sets whole: cutting the code points up costs time.
constexpr std::size_t kMaxFoldedSets = 64;

// What stands in the pattern for a set of characters.
struct SetUse {
  std::size_t set;
  bool in_class, negated;
};

struct Literal {
  char32_t code = 0;
  std::size_t num_bytes = 0;  // in the pattern; 0: no literal stands there
};

std::string class_body(const CodeRanges& ranges) {
  std::string body;
  for (const CodeRange& range : ranges)
    body += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", std::uint32_t{range.first},
                        std::uint32_t{range.last});
  return body;
}

class Translator {
 public:
  Translator(std::string_view pattern, std::string_view place) : in_(pattern), place_(place) {}

  TranslatedPattern run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '[')
        open_class();
      else if (c == ']' && in_class_)
        close_class();
      else if (c == '(' && !in_class_)
        group();
      else if (const Literal literal = literal_at(at_); literal.num_bytes > 0)
        character(literal);
      else
        escape();
    }
    return render();
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(ErrorKind::config, "tokenizer",
                fmt::format("{}: the pattern uses {} at byte {}, which is not supported", place_,
                            what, at_),
                "patterns may use groups, alternatives, quantifiers, classes, \\s \\d \\w \\p{..} "
                "and (?i:..)");
  }

  // The one character that stands at in_[at], plain or escaped.
  Literal literal_at(std::size_t at) const {
    if (at >= in_.size()) return {};
    if (in_[at] != '\\') {
      const DecodedChar c = decode_char(in_, at);
      return {c.code, c.num_bytes};
    }
    if (at + 1 >= in_.size()) return {};
    const char c = in_[at + 1];
    if (c == 'x') return hex_at(at);
    if (c == 'r') return {'\r', 2};
    if (c == 'n') return {'\n', 2};
    if (c == 't') return {'\t', 2};
    if (c == 'f') return {'\f', 2};
    if (std::isalnum(static_cast<unsigned char>(c))) return {};
    const DecodedChar escaped = decode_char(in_, at + 1);
    return {escaped.code, 1 + escaped.num_bytes};
  }

  // \xHH and \x{H..}: PCRE2 reads both alike.
  Literal hex_at(std::size_t at) const {
    const bool braces = at + 2 < in_.size() && in_[at + 2] == '{';
    const std::size_t begin = at + (braces ? 3 : 2);
    std::size_t end = begin;
    while (end < in_.size() && (braces || end < at + 4) &&
           std::isxdigit(static_cast<unsigned char>(in_[end])))
      ++end;
    if (braces && (end >= in_.size() || in_[end] != '}' || end == begin))
      refuse("'\\x{' without '}'");
    std::uint32_t code = 0;
    const auto parsed = std::from_chars(in_.data() + begin, in_.data() + end, code, 16);
    if (end > begin && (parsed.ec != std::errc{} || code > 0x10FFFF || (code >> 11) == 0x1B))
      refuse("a '\\x' that is no character");
    return {code, end + (braces ? 1 : 0) - at};
  }

  void character(Literal low) {
    const char c = in_[at_];
    if (in_class_ && c == '&' && in_.substr(at_).starts_with("&&")) refuse("'&&' in a class");
    if (!in_class_ && c == '}' && at_ + 1 < in_.size() && in_[at_ + 1] == '+')
      refuse("'}+', which Oniguruma reads as a repetition");
    if (!in_class_ && c == ')' && caseless_.size() > 1) caseless_.pop_back();
    const std::size_t dash = at_ + low.num_bytes;
    Literal high = low;
    if (in_class_ && in_.substr(dash).starts_with('-') && dash + 1 < in_.size() &&
        in_[dash + 1] != ']' && in_[dash + 1] != '[') {
      if (const Literal end = literal_at(dash + 1); end.num_bytes > 0) {
        if (end.code < low.code) refuse("a range that is out of order");
        high = {end.code, end.num_bytes + 1 + low.num_bytes};
      }
    }
    if (high.code < 0x80)
      plain(in_.substr(at_, high.num_bytes));
    else
      use({{low.code, high.code}}, false);
    at_ += high.num_bytes;
  }

  void plain(std::string_view text) {
    if (parts_.empty() || !std::holds_alternative<std::string>(parts_.back()))
      parts_.emplace_back(std::string());
    std::get<std::string>(parts_.back()) += text;
  }

  // In a class a negated set is spelled out; elsewhere it is a class of its own.
  void use(CodeRanges ranges, bool negated) {
    if (negated && in_class_) {
      ranges = complement(ranges);
      negated = false;
    }
    whole_sets_ = whole_sets_ || caseless_.back();
    const auto same = [&](const CodeRanges& set) {
      return std::ranges::equal(set, ranges, [](const CodeRange& a, const CodeRange& b) {
        return a.first == b.first && a.last == b.last;
      });
    };
    const auto found = std::ranges::find_if(sets_, same);
    parts_.emplace_back(
        SetUse{static_cast<std::size_t>(found - sets_.begin()), in_class_, negated});
    if (found == sets_.end()) sets_.push_back(std::move(ranges));
  }

  void open_class() {
    if (in_class_) refuse("a class in a class");
    in_class_ = true;
    const bool negated = in_.substr(++at_).starts_with('^');
    plain(negated ? "[^" : "[");
    if (negated) ++at_;
    if (at_ < in_.size() && in_[at_] == ']') refuse("']' as the first character of a class");
  }

  void close_class() {
    in_class_ = false;
    plain("]");
    ++at_;
  }

  void group() {
    const std::string_view rest = in_.substr(at_);
    for (const std::string_view known :
         {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?i)"}) {
      if (!rest.starts_with(known)) continue;
      plain(known);
      at_ += known.size();
      if (known == "(?i)")
        caseless_.back() = true;
      else
        caseless_.push_back(known == "(?i:" || caseless_.back());
      has_caseless_ = has_caseless_ || caseless_.back();
      return;
    }
    if (rest.starts_with("(?") || rest.starts_with("(*"))
      refuse(fmt::format("'{}'", rest.substr(0, 3)));
    plain("(?:");  // captures are never read
    caseless_.push_back(caseless_.back());
    ++at_;
  }

  void escape() {
    if (at_ + 1 >= in_.size()) refuse("a '\\' at the end");
    const char c = in_[at_ + 1];
    const bool negated = std::isupper(static_cast<unsigned char>(c)) != 0;
    switch (c) {
      case 'p':
      case 'P':
        return property(negated);
      case 's':
      case 'S':
        use(white_space_ranges(), negated);
        break;
      case 'd':
      case 'D':
        use(category_ranges("Nd"), negated);
        break;
      case 'w':
      case 'W':
        use(word_ranges(), negated);
        break;
      case 'A':
      case 'z':
        plain(in_.substr(at_, 2));
        break;
      default:
        refuse(fmt::format("'\\{}'", c));
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
    CodeRanges ranges = name.empty() || name.size() > 2 ? CodeRanges{} : category_ranges(name);
    if (ranges.empty()) refuse(fmt::format("'\\p{{{}}}'", name));
    use(std::move(ranges), negated);
    at_ = close + 1;
  }

  // A set that is matched without regard to case stays whole: PCRE2 then adds the other cases.
  // Where letters are, U+017F and U+212A stand apart, which it takes for s and k.
  TranslatedPattern render() {
    TranslatedPattern result;
    if (has_caseless_) sets_.insert(sets_.end(), {{{0x17F, 0x17F}}, {{0x212A, 0x212A}}});
    if (!whole_sets_ && !sets_.empty() && sets_.size() <= kMaxFoldedSets)
      result.alphabet = Alphabet(sets_);
    for (const auto& part : parts_) {
      if (const auto* text = std::get_if<std::string>(&part)) {
        result.text += *text;
        continue;
      }
      const SetUse& use = std::get<SetUse>(part);
      const std::string body = class_body(result.alphabet.fold(sets_[use.set]));
      result.text += use.in_class ? body : fmt::format("[{}{}]", use.negated ? "^" : "", body);
    }
    return result;
  }

  std::string_view in_, place_;
  std::size_t at_ = 0;
  bool in_class_ = false, has_caseless_ = false, whole_sets_ = false;
  std::vector<bool> caseless_{false};  // of the groups that are open, the outermost first
  std::vector<CodeRanges> sets_;
  std::vector<std::variant<std::string, SetUse>> parts_;
};

}  // namespace

TranslatedPattern translate_pattern(std::string_view pattern, std::string_view place) {
  return Translator(pattern, place).run();
}

}  // namespace wmtp::tokenizer
