// NF4: weights in 4 bits, as bitsandbytes stores them. A parameter, flattened, is cut into blocks
// of 64 (the last may be shorter); a block has a scale a, and an element is
//   table[index] * a,  16 values, those of a normal distribution cut into equal parts.
// First level:   a = max |x|; index = how many thresholds (fp32 midpoints of the table) are
// strictly
//   below x * (1 / max(a, 1e-38)). Byte i: element 2i in the high nibble, 2i + 1 in the low one; an
//   odd count is padded with a zero. A block of zeros has a = 0 and index 7 throughout.
// Second level, optional: the scales of a parameter in 8 bits. offset = fp32(sum of all a in
// double,
//   in order / count), z = a - offset, groups of 256 scales with b = max |z|; code = the nearest
//   entry of the signed dynamic map to z * (1 / b), the lower one of two that are equally near.
//   a' = map[code] * b + offset, multiply and add rounded apart; b = 0 has code 127, the map's 0.
// Neither level depends on threads, instruction sets or where a range of whole blocks begins.
#pragma once
#include <array>
#include <cstdint>

#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

inline constexpr std::int64_t kNf4Block = 64;   // weights of a scale
inline constexpr std::int64_t kNf4Group = 256;  // scales of a second-level scale

// ceil(weights / 64), ceil(weights / 2), ceil(scales / 256).
constexpr std::int64_t nf4_blocks(std::int64_t num_weights) {
  return (num_weights + kNf4Block - 1) / kNf4Block;
}
constexpr std::int64_t nf4_bytes(std::int64_t num_weights) {
  return (num_weights + 1) / 2;
}
constexpr std::int64_t nf4_groups(std::int64_t num_blocks) {
  return (num_blocks + kNf4Group - 1) / kNf4Group;
}

// Ascending; [7] is 0.
const std::array<float, 16>& nf4_table();

// First level. On the CPU: values fp32 [n]; out: packed uint8 [nf4_bytes(n)], absmax fp32
// [nf4_blocks(n)]. Returns the place of the first value that is not finite, and then what was
// written means nothing; -1 if all are finite. BLOCKS.
[[nodiscard]] std::int64_t nf4_quantize(const Tensor& values, const Tensor& packed,
                                        const Tensor& absmax);

// The scales of a whole parameter, or of a stretch of one that begins at block `first_block`.
struct Nf4Scales {
  // uint8 [blocks]: codes, and `group_max` and `offset` below; or fp32 [blocks]: the scales
  // themselves, without a second level.
  Tensor codes = {};
  // fp32: b of the groups from first_block / 256 on, as many as the stretch touches.
  Tensor group_max = {};
  float offset = 0;
  std::int64_t first_block = 0;

  bool nested() const { return group_max.defined(); }
};

// Weights of whole blocks, the last one perhaps short.
struct Nf4Weights {
  Tensor packed = {};
  Nf4Scales scales = {};
};

// Second level, of all scales of a parameter: fp32 [blocks] on the CPU, finite.
Nf4Scales nf4_quantize_scales(const Tensor& absmax);
// A stretch of them: views, whose place is counted from the parameter's first block.
Nf4Scales nf4_stretch(const Nf4Scales& scales, std::int64_t first_block, std::int64_t num_blocks);
// a' of each block: fp32 [blocks] on the CPU.
Tensor nf4_scales(const Nf4Scales& scales);

// out[i] = round(table[index] * a'), one rounding to nearest even where out is bf16 or fp16, none
// where it is fp32 (or, on a CPU, fp64). packed uint8 [nf4_bytes(n)], out [n]: whole blocks of a
// parameter from scales.first_block on, the last one perhaps short. A GPU's bits are the CPU's.
// STREAM.
void nf4_dequantize(const Tensor& packed, const Nf4Scales& scales, const Tensor& out);

}  // namespace wmtp::kernels
