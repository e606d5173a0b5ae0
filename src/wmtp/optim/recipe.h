// How the optimizer keeps a trained parameter between steps: the master weight and two moments.
//   fp32          all in fp32: 12 bytes; the master in two planes (kernels/codes/planes.h) where
//                 bf16 is computed with: the upper one is, so that no copy of it is needed
//   bf16_moments  the master as fp32 has it, both moments in bf16, rounded stochastically: 8 bytes
//   bf16_sr       all in bf16, rounded stochastically: 6 bytes; in bf16 the master is computed with
//   int8          as bf16_sr, but the moments of a block's matrices in 8 bits (kernels/
//                 moment_codes.h): 4.03 bytes
// Units of full precision (the value head) are kept in fp32 by all of them.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "wmtp/tensor/dtype.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::optim {

enum class Recipe { fp32, bf16_moments, bf16_sr, int8 };
inline constexpr std::array kRecipes{Recipe::fp32, Recipe::bf16_moments, Recipe::bf16_sr,
                                     Recipe::int8};

std::string_view name_of(Recipe recipe);
// "split" is another name of fp32, of versions that kept its master in one tensor. Else Error
// config.
Recipe recipe_from_name(std::string_view name);
DType master_dtype(Recipe recipe);
// Whether the master lies in planes where bf16 is computed with.
bool splits_masters(Recipe recipe);
// Shards of trained weights are cut at multiples of it: no block of 8-bit moments lies on two
// ranks.
std::int64_t shard_alignment(Recipe recipe);
// Of the others the GPU bodies were held to the CPU's by emulation only.
bool has_run_on_gpu(Recipe recipe);

}  // namespace wmtp::optim
