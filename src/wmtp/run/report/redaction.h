// What is taken out of a text before it leaves the machine, for a tracking server or a page that
// others read.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/config/load.h"

namespace wmtp::run {

inline constexpr const char* kHidden = "[hidden]";

class Redactor {
 public:
  // Knows the credentials that variables of `env` hold (AWS_*, MLFLOW_TRACKING_*, tokens); those of
  // fewer than six characters are too likely to be a part of other words.
  explicit Redactor(const config::Environment& env);

  // The text without these credentials, and with URLs that have lost their user info (up to the
  // last "@" of the word) and their query; bytes that are no UTF-8 become U+FFFD.
  std::string operator()(std::string_view text) const;

 private:
  std::vector<std::string> secrets_;  // long ones first: one may be a part of another
};

// A command line without the program, as one would type it. Values of overrides in the sections
// mlflow, storage and logging are hidden.
std::string redacted_command(const std::vector<std::string>& words, const Redactor& redact);

}  // namespace wmtp::run
