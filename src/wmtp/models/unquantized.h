// The weights of a base in NF4 that were quantised while they were loaded, as they were before.
#pragma once
#include <set>
#include <string>

#include "wmtp/parallel/read_param.h"

namespace wmtp::models {

struct Unquantized {
  parallel::ReadParam fill;
  std::set<std::string, std::less<>> names;  // of no others
};

}  // namespace wmtp::models
