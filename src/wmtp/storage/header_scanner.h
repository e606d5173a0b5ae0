// The JSON that a safetensors header may contain, token by token: no recursion, no number but
// non-negative integers. Every error is ErrorKind::data and gives the byte in the file.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace wmtp::storage {

class HeaderScanner {
 public:
  // BORROWS `text`; `origin` stands in messages, `offset` is the text's place in the file.
  HeaderScanner(std::string_view text, std::string_view origin, std::uint64_t offset)
      : text_(text), origin_(origin), offset_(offset) {}

  void expect(char c);      // after white space
  bool take(char c);        // takes it if it is next
  std::string string();     // a JSON string, escapes resolved; at most 64 MiB is bounded by text
  std::uint64_t integer();  // digits only: no sign, fraction, exponent, leading zero
  void end();               // only white space is left

  [[noreturn]] void refuse(std::string_view fact) const;

 private:
  void skip_space();
  void append_escape(std::string& out);
  std::uint32_t hex4();

  std::string_view text_, origin_;
  std::uint64_t offset_;
  std::size_t at_ = 0;
};

}  // namespace wmtp::storage
