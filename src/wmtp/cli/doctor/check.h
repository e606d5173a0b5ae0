// One finding of `wmtp doctor`.
#pragma once
#include <string>
#include <vector>

namespace wmtp::cli {

inline constexpr double kGib = 1024.0 * 1024 * 1024;

enum class Health { ok, warn, fail };

struct Check {
  Health health = Health::ok;
  std::string name;                  // "LibTorch"
  std::string fact;                  // what was found, with numbers
  std::string fix;                   // what to do about it; empty when ok
  std::vector<std::string> details;  // more lines, for people
};

}  // namespace wmtp::cli
