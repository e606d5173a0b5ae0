// Keys as lines of YAML, nested in their sections.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace wmtp::config {

// REQUIRES keys of one section in a row.
class NestedLines {
 public:
  // The lines that this key adds: the sections it opens, then `name: value`, indented.
  std::vector<std::string> add(std::string_view key, std::string_view value);

 private:
  std::vector<std::string> open_;  // sections the last line stands in
};

}  // namespace wmtp::config
