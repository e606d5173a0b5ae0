// Bits of an fp32 number as two planes of 16 (planes.h), in integers alone. Torch-free:
// CUDA sources include it.
#pragma once
#include <cstdint>

#ifdef __CUDACC__
#define WMTP_HOST_DEVICE __host__ __device__
#else
#define WMTP_HOST_DEVICE
#endif

namespace wmtp::kernels {

struct PlaneBits {
  std::uint16_t upper;  // a bf16 number
  std::int16_t lower;
};

// A carry out of the fraction moves to the next exponent, which is the next neighbour; infinity has
// nothing to carry.
WMTP_HOST_DEVICE constexpr PlaneBits split_bits(std::uint32_t bits) {
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  if (is_nan) return {static_cast<std::uint16_t>(bits >> 16 | 0x40u), 0};  // a quiet one
  return {static_cast<std::uint16_t>((bits + 0x8000u) >> 16), static_cast<std::int16_t>(bits)};
}

WMTP_HOST_DEVICE constexpr std::uint32_t joined_bits(PlaneBits planes) {
  const auto rest = static_cast<std::uint32_t>(static_cast<std::int32_t>(planes.lower));
  return (static_cast<std::uint32_t>(planes.upper) << 16) + rest;
}

}  // namespace wmtp::kernels
