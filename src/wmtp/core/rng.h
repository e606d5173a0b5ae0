// The one source of randomness: Philox4x32-10, counter-based, so any element of any stream can be
// drawn by any rank at any time and nothing needs saving but seeds and names.
//   key words = seed low, high; counter words = index low, high, stream low, high
//   stream = first 8 bytes, little-endian, of SHA-256 of a name such as "order/0" or
//   "init/lm_head.weight"
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace wmtp {

using PhiloxWords = std::array<std::uint32_t, 4>;

PhiloxWords philox4x32_10(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);
std::uint64_t stream_id(std::string_view name);

// u = (word + 0.5) * 2^-32, in (0, 1).
inline double unit_uniform(std::uint32_t word) {
  return (word + 0.5) * 0x1p-32;
}
// Four standard normals of one counter value: Box-Muller pairs of words (0, 1) and (2, 3).
std::array<double, 4> four_normals(const PhiloxWords& words);

// Sequential reader of one stream: each draw takes the next index, from 0.
class RngStream {
 public:
  RngStream(std::uint64_t seed, std::string_view name) : seed_(seed), stream_(stream_id(name)) {}
  RngStream(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  PhiloxWords next() { return philox4x32_10(seed_, stream_, index_++); }
  PhiloxWords at(std::uint64_t index) const { return philox4x32_10(seed_, stream_, index); }
  // Uniform in [0, n) without bias. REQUIRES n > 0.
  std::uint64_t below(std::uint64_t n);

  // Fisher-Yates from the last element down.
  template <class T>
  void shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::uint64_t seed_, stream_, index_ = 0;
};

}  // namespace wmtp
