// Private to comm/: strict reading of environment variables that remembers what it saw.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "wmtp/comm/launch/launch_env.h"

namespace wmtp::comm {

class EnvReader {
 public:
  explicit EnvReader(const EnvLookup& env) : env_(env) {}

  // Empty values count as not set.
  std::optional<std::string> text(const std::string& name);
  std::string text_or(const std::string& name, const std::string& otherwise);
  std::optional<int> number(const std::string& name);  // Error config unless 0..2^31-1
  int number_or(const std::string& name, int otherwise);
  bool has(const std::string& name) { return text(name).has_value(); }

  const std::map<std::string, std::string>& seen() const { return seen_; }
  // Error config "<fact>; seen: RANK=0 WORLD_SIZE=2".
  [[noreturn]] void refuse(const std::string& fact, const std::string& hint) const;

 private:
  const EnvLookup& env_;
  std::map<std::string, std::string> seen_;
};

}  // namespace wmtp::comm
