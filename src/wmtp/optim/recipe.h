// How the optimizer keeps a trained parameter between steps: the master weight and two moments.
//   fp32     all in fp32: 12 bytes
//   bf16_sr  all in bf16, rounded stochastically: 6 bytes; in bf16 the master is computed with
#pragma once
#include <string_view>

#include "wmtp/tensor/dtype.h"

namespace wmtp::optim {

enum class Recipe { fp32, bf16_sr };

std::string_view name_of(Recipe recipe);
Recipe recipe_from_name(std::string_view name);  // else Error config
DType master_dtype(Recipe recipe);

}  // namespace wmtp::optim
