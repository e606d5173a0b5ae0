// The table of nf4.h as bits of fp32. Torch-free: CUDA sources include it.
#pragma once
#include <cstdint>

namespace wmtp::kernels {

struct Nf4TableBits {
  std::uint32_t value[16];
};

inline constexpr Nf4TableBits kNf4TableBits{{0xbf800000, 0xbf3239b1, 0xbf066b30, 0xbeca32a0,
                                             0xbe91a24d, 0xbe3d353f, 0xbdba7871, 0x00000000,
                                             0x3da2faff, 0x3e24cae3, 0x3e7c04dd, 0x3ead033a,
                                             0x3ee1a4b8, 0x3f1007ab, 0x3f3913b3, 0x3f800000}};

}  // namespace wmtp::kernels
