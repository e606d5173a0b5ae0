// A permutation of 0..N-1 with random access and no memory: an 8-round Feistel network over halves
// of h bits, walked until the result is below N.
//   (L, R) <- (R, L xor (word0 of stream `name` at index r*2^32 + R, cut to h bits)), r = 0..7
#pragma once
#include <cstdint>
#include <string_view>

namespace wmtp::data {

class EpochOrder {
 public:
  // `name` such as "order/0". REQUIRES size > 0.
  EpochOrder(std::uint64_t seed, std::string_view name, std::uint64_t size);
  // REQUIRES place < size.
  std::uint64_t operator()(std::uint64_t place) const;

 private:
  std::uint64_t seed_, stream_, size_;
  int half_bits_;
};

}  // namespace wmtp::data
