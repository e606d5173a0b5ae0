// What is checked of a YAML text before the parser sees it.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "wmtp/config/yaml/node.h"

namespace wmtp::config {

struct ScanProblem {
  Place place;  // line and column; the source is the caller's
  std::string fact;
};

// Size, UTF-8 (no surrogates, nothing overlong) and control characters. Linear time, no allocation.
std::optional<ScanProblem> scan_yaml(std::string_view text);

}  // namespace wmtp::config
