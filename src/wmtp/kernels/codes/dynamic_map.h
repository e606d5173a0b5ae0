// The 8-bit numbers of block-wise quantisation: 256 fp32 values in ascending order, seven decades
// of equal parts, each decade of twice as many as the one below it, and 0 and 1. torchao and
// bitsandbytes have the same bits.
#pragma once
#include <array>

namespace wmtp::kernels {

using DynamicMap = std::array<float, 256>;

// [127] is 0, [255] is 1; not symmetric: [0] is -0.992968738.
const DynamicMap& signed_dynamic_map();
// [0] is 0, [255] is 1.
const DynamicMap& unsigned_dynamic_map();

}  // namespace wmtp::kernels
