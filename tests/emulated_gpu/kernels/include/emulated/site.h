// A place in a .cu, for messages: as a default argument it is the caller's.
#pragma once
#include <cstring>

namespace wmtp::emulated {

struct Site {
  const char* file = "";
  int line = 0;

  bool operator==(const Site& other) const {
    return line == other.line && (file == other.file || std::strcmp(file, other.file) == 0);
  }
  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace wmtp::emulated
