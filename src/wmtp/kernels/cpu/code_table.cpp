#include "wmtp/kernels/cpu/code_table.h"

#include <bit>
#include <limits>

#include "wmtp/core/error.h"
#include "wmtp/kernels/cpu/code_search.h"

namespace wmtp::kernels::cpu {
namespace {

// Numbers in their own order as integers, both ways.
std::int32_t rank_of(float y) {
  const auto bits = std::bit_cast<std::int32_t>(y);
  return bits < 0 ? std::numeric_limits<std::int32_t>::min() - bits : bits;
}
float of_rank(std::int32_t rank) {
  return std::bit_cast<float>(rank < 0 ? std::numeric_limits<std::int32_t>::min() - rank : rank);
}

// The least number that takes a code above `code`: the search goes up with y, so that it is found
// by halving the numbers between the two values.
float step_above(const CodeSearch& search, std::uint8_t code) {
  std::int32_t below = rank_of(search.value(code)),
               above = rank_of(search.value(static_cast<std::uint8_t>(code + 1)));
  while (above - below > 1) {
    const std::int32_t middle = below + (above - below) / 2;
    (search.nearest(of_rank(middle)) > code ? above : below) = middle;
  }
  return of_rank(above);
}

CodeTable made(Moment moment) {
  const CodeSearch& search = CodeSearch::of(moment);
  CodeTable table{};
  table.least_scale = kLeastScale;
  table.least_with_history = search.least_with_history();
  for (std::size_t code = 0; code < 256; ++code)
    table.values[code] = search.value(static_cast<std::uint8_t>(code));
  for (std::size_t code = 0; code < 255; ++code)
    table.step[code] = step_above(search, static_cast<std::uint8_t>(code));
  table.step[255] = std::numeric_limits<float>::quiet_NaN();
  for (std::uint32_t upper = 0; upper < 65536; ++upper) {
    const std::uint32_t low_bits = upper & 0x8000u ? 0xffffu : 0u;
    const auto least = std::bit_cast<float>(upper << 16 | low_bits);
    const auto most = std::bit_cast<float>(upper << 16 | (low_bits ^ 0xffffu));
    table.start[upper] = search.nearest(least);
    WMTP_CHECK(search.nearest(most) <= table.start[upper] + 1,
               "8-bit moments: two codes begin among values of the same 16 bits");
  }
  return table;
}

}  // namespace

const CodeTable& code_table(Moment moment) {
  static const CodeTable kFirst = made(Moment::first), kSecond = made(Moment::second);
  return moment == Moment::first ? kFirst : kSecond;
}

}  // namespace wmtp::kernels::cpu
