// Numbers as event files hold them, whatever the machine's order of bytes.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>

namespace wmtp::tracking::tensorboard {

template <class Number>
std::string little_endian(Number value) {
  using Bits = std::conditional_t<sizeof(Number) == 8, std::uint64_t, std::uint32_t>;
  static_assert(sizeof(Number) == sizeof(Bits));
  auto bits = std::bit_cast<Bits>(value);
  std::string bytes;
  for (std::size_t i = 0; i < sizeof bits; ++i, bits >>= 8U)
    bytes.push_back(static_cast<char>(bits & 0xffU));
  return bytes;
}

}  // namespace wmtp::tracking::tensorboard
