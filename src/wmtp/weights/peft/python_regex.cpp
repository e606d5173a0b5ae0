#define PCRE2_CODE_UNIT_WIDTH 8
#include "wmtp/weights/peft/python_regex.h"

#include <fmt/format.h>
#include <pcre2.h>

#include "wmtp/core/error.h"

namespace wmtp::weights {
namespace {

constexpr std::size_t kMaxRegexBytes = std::size_t{16} << 10;
constexpr std::uint32_t kMaxSteps = 1'000'000;

struct FreeRegexCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeRegexContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeRegexMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
using RegexMatch = std::unique_ptr<pcre2_match_data, FreeRegexMatch>;

std::string regex_message(int code) {
  unsigned char buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

[[noreturn]] void refuse_regex(const std::string& place, std::string_view pattern,
                               std::string_view fact) {
  throw Error(ErrorKind::config, "peft", fmt::format("{}: pattern '{}' {}", place, pattern, fact),
              "name the modules in a list instead");
}

// The pattern for PCRE2, character by character.
class PythonTranslator {
 public:
  PythonTranslator(std::string_view pattern, const std::string& place)
      : in_(pattern), place_(place) {}

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\')
        escape();
      else if (in_class_)
        class_character(c);
      else if (c == '[')
        open_class();
      else if (c == '(')
        group();
      else if (in_.substr(at_).starts_with("{,"))
        take("{0,", 2);  // as Python counts; PCRE2 would take it literally
      else
        take(in_.substr(at_, 1), 1);
    }
    return std::move(out_);
  }

 private:
  void take(std::string_view text, std::size_t num_bytes) {
    out_ += text;
    at_ += num_bytes;
  }

  [[noreturn]] void refuse(std::string_view what) const {
    refuse_regex(place_, in_, fmt::format("uses {}, which is not supported", what));
  }

  void escape() {
    if (at_ + 1 >= in_.size()) refuse("a '\\' at the end");
    const char c = in_[at_ + 1];
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool is_digit = c >= '0' && c <= '9';
    if (!in_class_ && c == 'Z') return take("\\z", 2);
    const std::string_view known = in_class_ ? "dDwWsSnrt" : "dDwWsSnrtbBA123456789";
    if ((is_letter || is_digit) && known.find(c) == known.npos) refuse(fmt::format("'\\{}'", c));
    take(in_.substr(at_, 2), 2);
  }

  void open_class() {
    in_class_ = true;
    take("[", 1);
    if (in_.substr(at_).starts_with('^')) take("^", 1);
    if (in_.substr(at_).starts_with(']')) take("\\]", 1);  // literal at the first place
  }

  void class_character(char c) {
    if (c == ']') in_class_ = false;
    take(c == '[' ? std::string_view("\\[") : in_.substr(at_, 1), 1);
  }

  void group() {
    const std::string_view rest = in_.substr(at_);
    if (rest.starts_with("(*")) refuse("'(*'");
    if (rest.starts_with("(?")) {
      bool is_known = false;
      for (const std::string_view known :
           {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?P<", "(?P="})
        is_known = is_known || rest.starts_with(known);
      if (!is_known) refuse(fmt::format("'{}'", rest.substr(0, 3)));
    }
    take("(", 1);
    if (rest.starts_with("(?")) take("?", 1);
  }

  std::string_view in_;
  const std::string& place_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

struct PythonRegex::Compiled {
  std::unique_ptr<pcre2_code, FreeRegexCode> code;
  std::unique_ptr<pcre2_match_context, FreeRegexContext> context;
  std::string pattern, place;

  // Null: no match. `options` are PCRE2's.
  RegexMatch match(std::string_view text, std::uint32_t options) const {
    RegexMatch data(pcre2_match_data_create_from_pattern(code.get(), nullptr));
    const int result = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                   text.size(), 0, options, data.get(), context.get());
    if (result == PCRE2_ERROR_NOMATCH) return nullptr;
    if (result < 0)
      refuse_regex(place, pattern, fmt::format("gave up on {}: {}", text, regex_message(result)));
    return data;
  }
};

PythonRegex::PythonRegex(std::string_view pattern, std::string place) : compiled_(new Compiled) {
  compiled_->pattern = pattern;
  compiled_->place = std::move(place);
  if (pattern.size() > kMaxRegexBytes)
    refuse_regex(compiled_->place, pattern.substr(0, 40),
                 fmt::format("... has {} bytes, limit {}", pattern.size(), kMaxRegexBytes));
  const std::string translated = PythonTranslator(pattern, compiled_->place).run();
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()),
                                      translated.size(), PCRE2_UTF, &error, &offset, nullptr));
  if (!compiled_->code)
    refuse_regex(compiled_->place, pattern,
                 fmt::format("does not compile: {}", regex_message(error)));
  compiled_->context.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(compiled_->context.get(), kMaxSteps);
}

PythonRegex::~PythonRegex() = default;
PythonRegex::PythonRegex(PythonRegex&&) noexcept = default;

bool PythonRegex::fullmatch(std::string_view text) const {
  return compiled_->match(text, PCRE2_ANCHORED | PCRE2_ENDANCHORED) != nullptr;
}

bool PythonRegex::match(std::string_view text) const {
  return compiled_->match(text, PCRE2_ANCHORED) != nullptr;
}

std::optional<std::string> PythonRegex::match_group(std::string_view text, const char* name) const {
  const RegexMatch data = compiled_->match(text, PCRE2_ANCHORED);
  const int number =
      pcre2_substring_number_from_name(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(name));
  if (!data) return std::nullopt;
  if (number < 1) return "";
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get()) + 2 * std::size_t(number);
  if (ends[0] == PCRE2_UNSET) return "";
  return std::string(text.substr(ends[0], ends[1] - ends[0]));
}

}  // namespace wmtp::weights
