// The slow and exact reading of one JSON line: why it is bad and at which byte, or where a value
// stands. The fast path (row_schema) comes here only for lines it refuses.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/data/index/bad_lines.h"

namespace wmtp::data {

constexpr int kMaxJsonDepth = 64;

// Where the values of the first two levels of objects stand: key path -> column from 1.
struct ValuePlace {
  std::string outer, inner;  // inner is empty for a value of the top-level object
  std::size_t column = 1;
};

struct JsonScan {
  std::optional<BadLine> bad;  // row is left 0
  std::vector<ValuePlace> places;
  std::size_t column_of(std::string_view outer, std::string_view inner = {}) const;  // 1 if unknown
};

// No recursion; work and memory are linear in the line. Accepts any top-level value.
JsonScan scan_json(std::string_view line);

}  // namespace wmtp::data
