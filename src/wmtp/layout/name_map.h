// How the names and rows of a file relate to wmtp's: the part of a model's knowledge that readers
// and writers of files need, handed to them as a value.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace wmtp::layout {

struct MappedName {
  std::string name;  // wmtp's name
  // > 0: the file holds the rows of each head of that many rows in the interleaved rotary order.
  std::int64_t interleaved_head_dim = 0;
};

// The stored name's counterpart; nothing = the file's name is not one that this map knows.
using NameMap = std::function<std::optional<MappedName>(std::string_view stored)>;

// wmtp's rows are half-split: row c * e/2 + j of a head (c = 0, 1) is interleaved row 2j + c.
inline std::int64_t interleaved_row(std::int64_t half_split_row, std::int64_t head_dim) {
  const std::int64_t head = half_split_row / head_dim, within = half_split_row % head_dim;
  const std::int64_t half = head_dim / 2;
  return head * head_dim + 2 * (within % half) + within / half;
}

}  // namespace wmtp::layout
