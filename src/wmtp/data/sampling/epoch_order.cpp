#include "wmtp/data/sampling/epoch_order.h"

#include <algorithm>
#include <bit>

#include "wmtp/core/rng.h"

namespace wmtp::data {

EpochOrder::EpochOrder(std::uint64_t seed, std::string_view name, std::uint64_t size)
    : seed_(seed), stream_(stream_id(name)), size_(size) {
  const int bits = std::max(2, static_cast<int>(std::bit_width(size - 1)));
  half_bits_ = (bits + 1) / 2;
}

std::uint64_t EpochOrder::operator()(std::uint64_t place) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = place >> half_bits_, right = place & mask;
    for (std::uint64_t round = 0; round < 8; ++round) {
      const std::uint32_t word = philox4x32_10(seed_, stream_, (round << 32) + right)[0];
      const std::uint64_t next = left ^ (word & mask);
      left = right;
      right = next;
    }
    place = (left << half_bits_) | right;
  } while (place >= size_);
  return place;
}

}  // namespace wmtp::data
