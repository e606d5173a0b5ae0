// Regular expressions of Python's `re`, as configurations of Python tools hold them, on ASCII text
// such as names of modules. PCRE2 behind a check: what it reads as Python does is taken, anything
// else is refused by name.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace wmtp::weights {

class PythonRegex {
 public:
  // Error config for a pattern that does not compile or is not known to mean the same in both.
  // `place` names file and key in errors.
  PythonRegex(std::string_view pattern, std::string place);
  ~PythonRegex();
  PythonRegex(PythonRegex&&) noexcept;

  // Error config where the pattern backtracks beyond a million steps.
  bool fullmatch(std::string_view text) const;
  bool match(std::string_view text) const;  // at the beginning of the text
  // The same, and what the group of that name matched: empty where it took no part.
  std::optional<std::string> match_group(std::string_view text, const char* name) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace wmtp::weights
