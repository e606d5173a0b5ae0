#include "wmtp/optim/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "wmtp/core/error.h"
#include "wmtp/kernels/codes/moment_codes.h"
#include "wmtp/layout/shard_plan.h"

namespace wmtp::optim {

std::string_view name_of(Recipe recipe) {
  switch (recipe) {
    case Recipe::fp32:
      return "fp32";
    case Recipe::bf16_moments:
      return "bf16_moments";
    case Recipe::bf16_sr:
      return "bf16_sr";
    case Recipe::int8:
      return "int8";
  }
  WMTP_CHECK(false, "no such recipe");
}

Recipe recipe_from_name(std::string_view name) {
  if (name == "split") return Recipe::fp32;
  std::vector<std::string_view> known;
  for (const Recipe recipe : kRecipes) {
    if (name_of(recipe) == name) return recipe;
    known.push_back(name_of(recipe));
  }
  throw Error(ErrorKind::config, "optim",
              fmt::format("optimizer precision \"{}\" is not available", name),
              fmt::format("known are {}", fmt::join(known, ", ")));
}

DType master_dtype(Recipe recipe) {
  return recipe == Recipe::bf16_sr || recipe == Recipe::int8 ? kBFloat16 : kFloat32;
}

bool splits_masters(Recipe recipe) {
  return master_dtype(recipe) == kFloat32;
}

std::int64_t shard_alignment(Recipe recipe) {
  return recipe == Recipe::int8 ? kernels::kCodeBlock : layout::BucketPlan::kAlignment;
}

bool has_run_on_gpu(Recipe recipe) {
  return recipe == Recipe::fp32 || recipe == Recipe::bf16_sr;
}

}  // namespace wmtp::optim
