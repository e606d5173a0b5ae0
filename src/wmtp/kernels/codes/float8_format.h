// The two number formats of 8 bits (kernels/float8.h). Torch-free: CUDA sources include it.
#pragma once

namespace wmtp::kernels {

// e4m3: 1-4-3 bits, largest 448, no infinity. e5m2: 1-5-2 bits, largest 57344.
enum class Float8Format { e4m3, e5m2 };

// The codes count on evenly from one binade to the next, as those of fp32 do: cutting off bits of
// the fraction with round-to-nearest-even carries into the exponent by itself. Below the least
// normal number the spacing is constant, and adding a number whose last place is that spacing
// rounds to it.
struct Float8Shape {
  int mantissa_bits, least_exponent;  // of normal numbers
  float largest, least_normal;
  float anchor;  // its last place is the spacing of subnormal numbers
};
inline constexpr Float8Shape kE4m3Shape{3, -6, 448, 0x1p-6f, 0x1p14f};
inline constexpr Float8Shape kE5m2Shape{2, -14, 57344, 0x1p-14f, 0x1p7f};

// Below it an amax counts as this: a matrix of zeros has a scale, too.
inline constexpr double kLeastFloat8Amax = 1e-12;

}  // namespace wmtp::kernels
