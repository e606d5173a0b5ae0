// A moment in 8 bits: blocks of 256 elements with an fp32 scale each, the largest magnitude of the
// block but at least 1e-12. An element is values[code] * scale. Its code is the nearest to y = x /
// scale: of the last value <= y and the one after it the latter where y is at least halfway. A
// positive second moment never takes code 0, which would read as no history at all: at least 1.
// One number that is not finite makes its whole block read as such. Fresh: zeros, with scales of 0.
// On the host only; the update of adamw.h does the same to its blocks wherever they lie.
#pragma once
#include <cstdint>

#include "wmtp/kernels/codes/dynamic_map.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

inline constexpr std::int64_t kCodeBlock = 256;

// The first moment has either sign, the second none.
enum class Moment { first, second };

inline const DynamicMap& code_values(Moment moment) {
  return moment == Moment::first ? signed_dynamic_map() : unsigned_dynamic_map();
}
std::uint8_t zero_code(Moment moment);

inline std::int64_t num_code_blocks(std::int64_t size) {
  return (size + kCodeBlock - 1) / kCodeBlock;
}

struct MomentCodes {
  Tensor codes;   // [size] uint8
  Tensor scales;  // fp32, of every block that codes[0] .. codes[size - 1] touch
};

// values: [size] fp32. The first of them begins a block.
void quantize(Moment moment, const Tensor& values, const MomentCodes& to);
// codes[0] is the element `place` of its block.
void dequantize(Moment moment, const MomentCodes& from, std::int64_t place, const Tensor& values);

}  // namespace wmtp::kernels
