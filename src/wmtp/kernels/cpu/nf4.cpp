#include "wmtp/kernels/cpu/nf4.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "wmtp/kernels/codes/dynamic_map.h"
#include "wmtp/kernels/codes/nf4_bits.h"
#include "wmtp/kernels/nf4.h"

namespace wmtp::kernels {
namespace {

template <std::size_t N>
constexpr std::array<float, N> values_of_bits(const std::uint32_t (&bits)[N]) {
  std::array<float, N> values{};
  for (std::size_t i = 0; i < N; ++i) values[i] = std::bit_cast<float>(bits[i]);
  return values;
}

constexpr auto kNf4Table = values_of_bits(kNf4TableBits.value);

constexpr auto kNf4Thresholds = values_of_bits<15>({
    0xbf591cd8,
    0xbf1c5270,
    0xbeeb8480,
    0xbeadea76,
    0xbe703cec,
    0xbe0d38bc,
    0xbd3a7871,
    0x3d22faff,
    0x3df64862,
    0x3e5067e0,
    0x3e9582d4,
    0x3ec753f9,
    0x3f006d04,
    0x3f248daf,
    0x3f5c89da,
});

constexpr float kSmallestScale = 1e-38f;  // its reciprocal is finite

// Exact: the sum of two entries fits a double.
std::array<double, 255> midpoints_of(const DynamicMap& map) {
  std::array<double, 255> midpoints{};
  for (std::size_t i = 0; i < midpoints.size(); ++i)
    midpoints[i] = (static_cast<double>(map[i]) + static_cast<double>(map[i + 1])) / 2;
  return midpoints;
}

// Finite numbers are below infinity in the order of their magnitude's bits, and NaN above it: the
// maximum of the bits shows a value of either kind.
float largest_magnitude(const float* values, std::int64_t size) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < size; ++i)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffu);
  return std::bit_cast<float>(largest);
}

}  // namespace

const std::array<float, 16>& nf4_table() {
  return kNf4Table;
}

namespace cpu {

// Threshold by threshold over the whole block, which the compiler turns into vector compares.
float nf4_quantize_block(const float* values, std::int64_t size, std::uint8_t* packed) {
  const float scale = largest_magnitude(values, size);
  if (!std::isfinite(scale)) return scale;
  const float reciprocal = 1.0f / std::max(scale, kSmallestScale);
  std::array<float, kNf4Block> scaled{};
  std::array<std::int32_t, kNf4Block> indices{};
  for (std::int64_t i = 0; i < size; ++i) scaled[i] = values[i] * reciprocal;
  for (const float threshold : kNf4Thresholds)
    for (std::int64_t i = 0; i < kNf4Block; ++i) indices[i] += threshold < scaled[i] ? 1 : 0;
  for (std::int64_t i = 0; i < nf4_bytes(size); ++i)
    packed[i] = static_cast<std::uint8_t>(indices[2 * i] << 4 | indices[2 * i + 1]);
  return scale;
}

float nf4_quantize_group(const float* absmax, std::int64_t size, float offset,
                         std::uint8_t* codes) {
  static const std::array<double, 255> kMidpoints = midpoints_of(signed_dynamic_map());
  std::array<float, kNf4Group> deviations{};
  for (std::int64_t i = 0; i < size; ++i) deviations[i] = absmax[i] - offset;
  const float group_max = largest_magnitude(deviations.data(), size);
  const float reciprocal = 1.0f / std::max(group_max, kSmallestScale);
  for (std::int64_t i = 0; i < size; ++i) {
    const double scaled = static_cast<double>(deviations[i] * reciprocal);
    codes[i] = static_cast<std::uint8_t>(std::ranges::lower_bound(kMidpoints, scaled) -
                                         kMidpoints.begin());
  }
  return group_max;
}

float nf4_scale(std::uint8_t code, float group_max, float offset) {
  const float deviation = signed_dynamic_map()[code] * group_max;
  return deviation + offset;
}

// Each of the 16 products is formed and rounded once a block, not once an element.
template <class T>
void nf4_dequantize_block(const std::uint8_t* packed, float scale, std::int64_t size, T* out) {
  std::array<T, 16> products;
  for (std::size_t i = 0; i < products.size(); ++i)
    products[i] = static_cast<T>(kNf4Table[i] * scale);
  for (std::int64_t i = 0; i < size / 2; ++i) {
    out[2 * i] = products[packed[i] >> 4];
    out[2 * i + 1] = products[packed[i] & 15];
  }
  if (size % 2) out[size - 1] = products[packed[size / 2] >> 4];
}

template void nf4_dequantize_block(const std::uint8_t*, float, std::int64_t, float*);
template void nf4_dequantize_block(const std::uint8_t*, float, std::int64_t, double*);
template void nf4_dequantize_block(const std::uint8_t*, float, std::int64_t, c10::BFloat16*);
template void nf4_dequantize_block(const std::uint8_t*, float, std::int64_t, c10::Half*);

}  // namespace cpu
}  // namespace wmtp::kernels
