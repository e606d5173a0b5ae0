// What a save marks, and how it ended.
#pragma once
#include <cstdint>
#include <string>

namespace wmtp::run {

// Which pointers a save moves besides `latest`.
struct SaveMarks {
  bool best = false, final = false;
};

struct SaveOutcome {
  std::int64_t step = 0;
  std::string name;
  bool saved = false;
  std::string error;           // of one that failed
  bool state_differs = false;  // why it failed: ranks hold different values of the same state
  double seconds = 0, blocked_s = 0;
};

}  // namespace wmtp::run
