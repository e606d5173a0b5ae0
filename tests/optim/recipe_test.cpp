#include "wmtp/optim/recipe.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "wmtp/optim/adamw.h"

namespace wmtp::optim {
namespace {

TEST(Recipe, Names) {
  for (Recipe recipe : {Recipe::fp32, Recipe::bf16_sr})
    EXPECT_EQ(recipe_from_name(name_of(recipe)), recipe);
  EXPECT_EQ(master_dtype(Recipe::bf16_sr), kBFloat16);
  EXPECT_WMTP_ERROR(recipe_from_name("int8"), ErrorKind::config, "not available");
}

const std::vector<layout::ParamSpec> kParams{
    {"a", {37, 11}}, {"b.norm.weight", {129}}, {"c", {5, 101}}};

Tensor wave(std::int64_t size, double step) {
  return at::arange(size, at::kFloat).mul_(step).sin_();
}

// Three updates of one rank's shard of the bucket; every rank sees the gradient of its own part.
Tensor updated(int rank, int world) {
  const layout::BucketPlan plan(kParams, world);
  const layout::Range owned = plan.owned(rank);
  auto shard = [&](const Tensor& whole, at::ScalarType dtype) {
    Tensor part = at::zeros({plan.shard_numel()}, dtype);
    part.narrow(0, 0, owned.size()).copy_(whole.narrow(0, owned.begin, owned.size()));
    return part;
  };
  const Tensor master = shard(wave(plan.numel(), 0.7), at::kBFloat16);
  const Tensor grad = shard(wave(plan.numel(), 1.3), at::kFloat);
  AdamW adamw({{plan, rank, master, grad, Tensor()}},
              {.groups = {{"policy", 1e-3, 0.01}}, .group_of = nullptr, .decay_vectors = false},
              {.recipe = Recipe::bf16_sr, .rounding_seed = 3});
  for (int step = 0; step < 3; ++step)
    adamw.apply({.grad_scale = at::ones({}, at::kFloat), .apply = at::full({}, 1, at::kInt)});
  EXPECT_EQ(adamw.exp_avg().front().scalar_type(), at::kBFloat16);
  EXPECT_EQ(adamw.state_bytes(), 4 * plan.shard_numel());
  return master.narrow(0, 0, owned.size());
}

TEST(Recipe, ShardsRoundAsTheWholeDoes) {
  const Tensor whole = updated(0, 1);
  for (const int world : {2, 3, 4}) {
    std::vector<Tensor> parts;
    for (int rank = 0; rank < world; ++rank) parts.push_back(updated(rank, world));
    EXPECT_TRUE(at::cat(parts).equal(whole)) << world;
  }
}

TEST(Recipe, ABf16MasterNeedsIt) {
  const layout::BucketPlan plan(kParams, 1);
  const Tensor master = at::zeros({plan.shard_numel()}, at::kBFloat16);
  EXPECT_WMTP_ERROR(AdamW({{plan, 0, master, master.to(at::kFloat), Tensor()}},
                          {.groups = {{"policy", 1e-3, 0.01}}, .group_of = nullptr}, {}),
                    ErrorKind::internal, "stochastic rounding");
}

}  // namespace
}  // namespace wmtp::optim
