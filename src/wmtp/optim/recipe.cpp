#include "wmtp/optim/recipe.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"

namespace wmtp::optim {

std::string_view name_of(Recipe recipe) {
  return recipe == Recipe::bf16_sr ? "bf16_sr" : "fp32";
}

Recipe recipe_from_name(std::string_view name) {
  for (Recipe recipe : {Recipe::fp32, Recipe::bf16_sr})
    if (name_of(recipe) == name) return recipe;
  throw Error(ErrorKind::config, "optim",
              fmt::format("optimizer precision \"{}\" is not available", name),
              "known are fp32 and bf16_sr");
}

DType master_dtype(Recipe recipe) {
  return recipe == Recipe::bf16_sr ? kBFloat16 : kFloat32;
}

}  // namespace wmtp::optim
