#include "wmtp/data/index/json_scan.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>

#include "wmtp/core/planted_fault.h"
#include "wmtp/core/utf8.h"

namespace wmtp::data {
namespace {

struct Refusal {
  BadCause cause;
  std::size_t offset;
  std::string text;
};

class Scanner {
 public:
  explicit Scanner(std::string_view line) : line_(line) {}

  JsonScan run() {
    JsonScan result;
    try {
      check_bytes();
      document();
    } catch (const Refusal& refusal) {
      result.bad = BadLine{refusal.cause, 0, refusal.offset + 1, refusal.text};
    }
    result.places = std::move(places_);
    return result;
  }

 private:
  struct Level {
    bool object = false;
    std::set<std::string> keys;
    std::string key;
  };

  [[noreturn]] void refuse(BadCause cause, std::size_t offset, std::string text) const {
    throw Refusal{cause, offset, std::move(text)};
  }
  [[noreturn]] void unexpected(std::string_view wanted) const {
    if (at_ >= line_.size())
      refuse(BadCause::cut_line, at_, fmt::format("the line ends where {} should follow", wanted));
    refuse(BadCause::invalid_json, at_, fmt::format("expected {}", wanted));
  }

  void check_bytes() const {
    if (const auto nul = line_.find('\0'); nul != std::string_view::npos)
      refuse(BadCause::nul, nul, "NUL character");
    if (const auto bad = find_invalid_utf8(line_))
      refuse(BadCause::invalid_utf8, *bad,
             fmt::format("invalid UTF-8 (byte 0x{:02X})", static_cast<unsigned char>(line_[*bad])));
  }

  void skip_space() {
    while (at_ < line_.size() &&
           std::string_view(" \t\r\n").find(line_[at_]) != std::string_view::npos)
      ++at_;
  }
  bool take(char wanted) {
    skip_space();
    if (at_ >= line_.size() || line_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  void document() {
    value();
    while (!levels_.empty()) {
      Level& level = levels_.back();
      if (take(level.object ? '}' : ']')) {
        levels_.pop_back();
        fresh_ = false;
        continue;
      }
      if (!fresh_ && !take(',')) unexpected(level.object ? "',' or '}'" : "',' or ']'");
      fresh_ = false;
      if (level.object) member_key(level);
      value();
    }
    skip_space();
    if (at_ < line_.size()) refuse(BadCause::invalid_json, at_, "text after the end of the value");
  }

  void member_key(Level& level) {
    skip_space();
    const std::size_t start = at_;
    if (at_ >= line_.size() || line_[at_] != '"') unexpected("a key in double quotes");
    std::string key = string();
    if (!level.keys.insert(key).second)
      refuse(BadCause::duplicate_key, start,
             fmt::format("duplicate key \"{}\"", key.substr(0, 80)));
    level.key = std::move(key);
    if (!take(':')) unexpected("':'");
    skip_space();
    if (levels_.size() == 1) places_.push_back({level.key, "", at_ + 1});
    if (levels_.size() == 2 && levels_[0].object)
      places_.push_back({levels_[0].key, level.key, at_ + 1});
  }

  void value() {
    skip_space();
    if (at_ >= line_.size()) unexpected("a value");
    const char c = line_[at_];
    if (c == '{' || c == '[') {
      if (levels_.size() >= static_cast<std::size_t>(kMaxJsonDepth))
        refuse(BadCause::too_deep, at_, fmt::format("nested deeper than {}", kMaxJsonDepth));
      ++at_;
      levels_.emplace_back();
      levels_.back().object = c == '{';
      fresh_ = true;
      return;
    }
    fresh_ = false;
    if (c == '"')
      string();
    else if (c == '-' || (c >= '0' && c <= '9'))
      number();
    else
      word();
  }

  void word() {
    for (std::string_view name : {"true", "false", "null"}) {
      if (!line_.substr(at_).starts_with(name)) continue;
      at_ += name.size();
      return;
    }
    unexpected("a value");
  }

  bool digits() {
    const std::size_t start = at_;
    while (at_ < line_.size() && line_[at_] >= '0' && line_[at_] <= '9') ++at_;
    return at_ > start;
  }

  void number() {
    const std::size_t start = at_;
    if (line_[at_] == '-') ++at_;
    const std::size_t first = at_;
    if (!digits()) unexpected("a digit");
    if (line_[first] == '0' && at_ > first + 1)
      refuse(BadCause::invalid_json, first, "a number with a leading zero");
    bool integer = true;
    if (at_ < line_.size() && line_[at_] == '.') {
      integer = false, ++at_;
      if (!digits()) unexpected("a digit");
    }
    if (at_ < line_.size() && (line_[at_] == 'e' || line_[at_] == 'E')) {
      integer = false, ++at_;
      if (at_ < line_.size() && (line_[at_] == '+' || line_[at_] == '-')) ++at_;
      if (!digits()) unexpected("a digit");
    }
    check_range(line_.substr(start, at_ - start), integer, start);
  }

  void check_range(std::string_view text, bool integer, std::size_t start) const {
    const char *begin = text.data(), *end = text.data() + text.size();
    if (integer) {
      std::int64_t as_signed = 0;
      std::uint64_t as_unsigned = 0;
      const bool fits = text.front() == '-'
                            ? std::from_chars(begin, end, as_signed).ec == std::errc{}
                            : std::from_chars(begin, end, as_unsigned).ec == std::errc{};
      if (!fits)
        refuse(BadCause::integer_range, start,
               fmt::format("integer {} does not fit 64 bits", text.substr(0, 40)));
      return;
    }
    double number = 0;
    const auto parsed = std::from_chars(begin, end, number);
    // Out of range is both overflow and underflow; only the first is an error.
    if (parsed.ec == std::errc::result_out_of_range &&
        std::isinf(std::strtod(std::string(text).c_str(), nullptr)))
      refuse(BadCause::invalid_json, start,
             fmt::format("number {} is too large", text.substr(0, 40)));
  }

  unsigned hex4() {
    unsigned code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = at_ < line_.size() + planted_off_by_one ? line_[at_] : ' ';
      const auto digit = std::string_view("0123456789abcdefABCDEF").find(c);
      if (digit == std::string_view::npos) unexpected("four hexadecimal digits");
      code = code * 16 + static_cast<unsigned>(digit < 16 ? digit : digit - 6);
    }
    return code;
  }

  void escape(std::string& out) {
    const std::size_t start = at_ - 1;
    if (at_ >= line_.size()) unexpected("an escape");
    const char c = line_[at_++];
    const auto simple = std::string_view("\"\\/bfnrt").find(c);
    if (simple != std::string_view::npos) {
      out.push_back("\"\\/\b\f\n\r\t"[simple]);
      return;
    }
    if (c != 'u') refuse(BadCause::invalid_json, start, "unknown escape in a string");
    unsigned code = hex4();
    if (code >= 0xDC00 && code <= 0xDFFF) refuse(BadCause::invalid_json, start, "lone surrogate");
    if (code >= 0xD800 && code <= 0xDBFF) {
      if (!line_.substr(at_).starts_with("\\u"))
        refuse(BadCause::invalid_json, start, "lone surrogate");
      at_ += 2;
      const unsigned low = hex4();
      if (low < 0xDC00 || low > 0xDFFF) refuse(BadCause::invalid_json, start, "lone surrogate");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(code, out);
  }

  std::string string() {
    std::string out;
    ++at_;
    for (;;) {
      if (at_ >= line_.size()) unexpected("the end of a string");
      const char c = line_[at_];
      if (static_cast<unsigned char>(c) < 0x20)
        refuse(BadCause::invalid_json, at_, "control character in a string");
      ++at_;
      if (c == '"') return out;
      if (c == '\\')
        escape(out);
      else
        out.push_back(c);
    }
  }

  std::string_view line_;
  std::size_t at_ = 0;
  bool fresh_ = false;  // the innermost container is empty so far
  std::vector<Level> levels_;
  std::vector<ValuePlace> places_;
};

}  // namespace

std::size_t JsonScan::column_of(std::string_view outer, std::string_view inner) const {
  for (const ValuePlace& place : places)
    if (place.outer == outer && place.inner == inner) return place.column;
  return 1;
}

JsonScan scan_json(std::string_view line) {
  return Scanner(line).run();
}

}  // namespace wmtp::data
