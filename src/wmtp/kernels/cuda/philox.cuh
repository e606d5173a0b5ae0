// core/rng.h's generator on the device: the same words.
#pragma once
#include <cstdint>

namespace wmtp::kernels {

struct PhiloxDraw {
  std::uint32_t word[4];
};

__device__ __forceinline__ PhiloxDraw philox(std::uint64_t seed, std::uint64_t stream,
                                             std::uint64_t index) {
  constexpr std::uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  PhiloxDraw c{{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}};
  std::uint32_t key0 = static_cast<std::uint32_t>(seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint32_t high0 = __umulhi(kMul0, c.word[0]), low0 = kMul0 * c.word[0];
    const std::uint32_t high1 = __umulhi(kMul1, c.word[2]), low1 = kMul1 * c.word[2];
    c = {{high1 ^ c.word[1] ^ key0, low1, high0 ^ c.word[3] ^ key1, low0}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return c;
}

}  // namespace wmtp::kernels
