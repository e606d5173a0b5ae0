// Weights from scratch. Element i of a tensor depends on (seed, tensor name, i) alone, so any rank
// draws any range and every world size gets the same weights:
//   Philox stream init/<name>, index i / 4; matrices normal with std initializer_range, norms 1.
#pragma once
#include <cstdint>
#include <string_view>

#include "wmtp/layout/unit_spec.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::model {

// Fills `out` (1-D, CPU, fp32 or fp64) with elements [begin, begin + out.numel()) of the parameter.
// Projections and embeddings: normal(0, std). Vectors whose name ends in norm.weight: 1.
// LoRA: lora_A uniform in +-1/sqrt(in), lora_B zero.
void random_init(const layout::ParamSpec& param, std::uint64_t seed, double std, std::int64_t begin,
                 const Tensor& out);

}  // namespace wmtp::model
