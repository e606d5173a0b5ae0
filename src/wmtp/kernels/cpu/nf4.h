// The CPU bodies of NF4, over plain pointers. Their source is compiled without contraction of a
// product and a sum into one operation: a' is rounded twice on every processor.
#pragma once
#include <cstdint>

namespace wmtp::kernels::cpu {

// A block of up to 64 values: returns its scale, packs its indices two to a byte. Where a value is
// not finite the scale is not either, and nothing is packed.
float nf4_quantize_block(const float* values, std::int64_t size, std::uint8_t* packed);

// Codes of a group of up to 256 scales; returns b.
float nf4_quantize_group(const float* absmax, std::int64_t size, float offset, std::uint8_t* codes);

// a' of one block.
float nf4_scale(std::uint8_t code, float group_max, float offset);

// A block of up to 64 elements; T is float, double, c10::BFloat16 or c10::Half.
template <class T>
void nf4_dequantize_block(const std::uint8_t* packed, float scale, std::int64_t size, T* out);

}  // namespace wmtp::kernels::cpu
