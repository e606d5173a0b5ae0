#include "wmtp/optim/recipe.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "wmtp/kernels/codes/planes.h"
#include "wmtp/optim/adamw.h"

namespace wmtp::optim {
namespace {

TEST(Recipe, Names) {
  for (const Recipe recipe : kRecipes) EXPECT_EQ(recipe_from_name(name_of(recipe)), recipe);
  EXPECT_EQ(master_dtype(Recipe::bf16_sr), kBFloat16);
  EXPECT_EQ(master_dtype(Recipe::bf16_moments), kFloat32);
  EXPECT_EQ(master_dtype(Recipe::int8), kBFloat16);
  EXPECT_EQ(recipe_from_name("split"), Recipe::fp32);
  EXPECT_WMTP_ERROR(recipe_from_name("bf16"), ErrorKind::config, "not available");
}

TEST(Recipe, PlanesAreForMastersInFp32) {
  for (const Recipe recipe : kRecipes)
    EXPECT_EQ(splits_masters(recipe), recipe == Recipe::fp32 || recipe == Recipe::bf16_moments);
}

// As in a block: matrices, then vectors. The second matrix begins within a block of 256, and the
// last block of the matrices is a short one.
const std::vector<layout::ParamSpec> kParams{
    {"a", {37, 31}}, {"c", {9, 101}}, {"b.norm.weight", {129}}};
constexpr std::int64_t kMatrices = 37 * 31 + 9 * 101;

Tensor wave(std::int64_t size, double step) {
  return at::arange(size, at::kFloat).mul_(step).sin_();
}

// What all ranks hold, end to end without padding.
struct Whole {
  std::vector<Tensor> master, codes, scales, numbers;
  std::int64_t bytes = 0;
};

// Three updates of one rank's shard of the bucket; every rank sees the gradient of its own part.
void add_rank(Recipe recipe, int rank, int world, Whole& whole, bool in_planes = false) {
  const layout::BucketPlan plan(kParams, world, shard_alignment(recipe));
  const layout::Range owned = plan.owned(rank);
  auto shard = [&](const Tensor& values, at::ScalarType dtype) {
    Tensor part = at::zeros({plan.shard_numel()}, dtype);
    part.narrow(0, 0, owned.size()).copy_(values.narrow(0, owned.begin, owned.size()));
    return part;
  };
  Tensor master = shard(wave(plan.numel(), 0.7), master_dtype(recipe));
  const Tensor grad = shard(wave(plan.numel(), 1.3), at::kFloat);
  kernels::Planes planes;
  if (in_planes) {
    planes = {master.to(kBFloat16), at::zeros(master.sizes(), at::kShort)};
    kernels::split_planes(master, planes);
  }
  AdamW adamw({{.plan = plan,
                .rank = rank,
                .master = in_planes ? planes.upper : master,
                .grad = grad,
                .master_lower = planes.lower}},
              {.groups = {{"policy", 1e-3, 0.01}}, .group_of = nullptr, .decay_vectors = false},
              {.recipe = recipe, .rounding_seed = 3});
  for (int step = 0; step < 3; ++step)
    adamw.apply({.grad_scale = at::ones({}, at::kFloat), .apply = at::full({}, 1, at::kInt)});
  if (in_planes) kernels::join_planes(planes, master.fill_(0));
  whole.master.push_back(master.narrow(0, 0, owned.size()));
  const ShardMoments& moments = adamw.moments().front();
  const layout::Range quantized{0, moments.layout().quantized};
  for (const Moment moment : kMoments) {
    if (!quantized.empty()) {
      whole.codes.push_back(moments.view(moment, quantized).values);
      whole.scales.push_back(moments.view(moment, quantized).scales);
    }
    if (quantized.end < owned.size())
      whole.numbers.push_back(moments.view(moment, {quantized.end, owned.size()}).values);
  }
  whole.bytes += adamw.state_bytes();
}

// The first moments of all ranks, then the second ones.
Tensor joined(const std::vector<Tensor>& parts) {
  std::vector<Tensor> ordered;
  for (const std::size_t moment : {0, 1})
    for (std::size_t i = moment; i < parts.size(); i += 2) ordered.push_back(parts[i]);
  return ordered.empty() ? Tensor(at::zeros({0})) : at::cat(ordered);
}

TEST(Recipe, AnyNumberOfRanksHasTheBitsOfOne) {
  for (const Recipe recipe : kRecipes) {
    Whole alone;
    add_rank(recipe, 0, 1, alone);
    EXPECT_EQ(joined(alone.codes).numel(), recipe == Recipe::int8 ? 2 * kMatrices : 0);
    for (const int world : {2, 3, 4, 5}) {
      SCOPED_TRACE(std::string(name_of(recipe)) + " on " + std::to_string(world));
      Whole ranks;
      for (int rank = 0; rank < world; ++rank) add_rank(recipe, rank, world, ranks);
      EXPECT_TRUE(at::cat(ranks.master).equal(alone.master.front()));
      EXPECT_TRUE(joined(ranks.codes).equal(joined(alone.codes)));
      EXPECT_TRUE(joined(ranks.scales).equal(joined(alone.scales)));
      EXPECT_TRUE(joined(ranks.numbers).equal(joined(alone.numbers)));
    }
  }
}

TEST(Recipe, AMasterInPlanesHasTheBitsOfOneTensor) {
  for (const Recipe recipe : {Recipe::fp32, Recipe::bf16_moments}) {
    Whole alone;
    add_rank(recipe, 0, 1, alone);
    for (const int world : {1, 2, 3}) {
      SCOPED_TRACE(std::string(name_of(recipe)) + " on " + std::to_string(world));
      Whole ranks;
      for (int rank = 0; rank < world; ++rank) add_rank(recipe, rank, world, ranks, true);
      EXPECT_TRUE(at::cat(ranks.master).equal(alone.master.front()));
      EXPECT_TRUE(joined(ranks.numbers).equal(joined(alone.numbers)));
    }
  }
}

// In one shard of 2185 elements and its padding.
TEST(Recipe, BytesOfTheMoments) {
  const auto bytes = [](Recipe recipe) {
    Whole whole;
    add_rank(recipe, 0, 1, whole);
    return whole.bytes;
  };
  EXPECT_EQ(bytes(Recipe::fp32), 2 * 4 * 2304);
  EXPECT_EQ(bytes(Recipe::bf16_moments), 2 * 2 * 2304);
  EXPECT_EQ(bytes(Recipe::bf16_sr), 2 * 2 * 2304);
  EXPECT_EQ(bytes(Recipe::int8), 2 * (kMatrices + 4 * 9 + 2 * (2304 - kMatrices)));
}

// Embeddings are matrices too, and a value head is fp32 under every recipe.
TEST(Recipe, EightBitsAreForTheMatricesOfBlocks) {
  const layout::BucketPlan plan(kParams, 1, 256);
  for (const Recipe recipe : kRecipes) {
    const DType master = master_dtype(recipe);
    const DType usual = recipe == Recipe::fp32 ? kFloat32 : kBFloat16;
    const MomentLayout root = moment_layout(plan, 0, {recipe, /*is_block=*/false, false, master});
    EXPECT_EQ(root.quantized, 0);
    EXPECT_EQ(root.dtype, usual);
    const MomentLayout head = moment_layout(plan, 0, {recipe, false, true, kFloat32});
    EXPECT_EQ(head.quantized, 0);
    EXPECT_EQ(head.dtype, kFloat32);
    const MomentLayout block = moment_layout(plan, 0, {recipe, true, false, master});
    EXPECT_EQ(block.quantized, recipe == Recipe::int8 ? kMatrices : 0);
    EXPECT_EQ(block.dtype, usual);
  }
}

TEST(Recipe, ABlockOfEightBitMomentsIsOneGroup) {
  const layout::BucketPlan plan(kParams, 1, 256);
  const Tensor master = at::zeros({plan.shard_numel()}, at::kBFloat16);
  const ParamGroups groups{
      .groups = {{"a", 1e-3, 0}, {"c", 1e-4, 0}},
      .group_of = [](const layout::ParamSpec& param) -> std::size_t { return param.name == "c"; }};
  EXPECT_WMTP_ERROR(AdamW({{.plan = plan, .master = master, .grad = master.to(at::kFloat)}}, groups,
                          {.recipe = Recipe::int8}),
                    ErrorKind::internal, "in two groups");
}

TEST(Recipe, ABf16MasterNeedsIt) {
  const layout::BucketPlan plan(kParams, 1);
  const Tensor master = at::zeros({plan.shard_numel()}, at::kBFloat16);
  EXPECT_WMTP_ERROR(AdamW({{.plan = plan, .master = master, .grad = master.to(at::kFloat)}},
                          {.groups = {{"policy", 1e-3, 0.01}}, .group_of = nullptr}, {}),
                    ErrorKind::internal, "stochastic rounding");
}

}  // namespace
}  // namespace wmtp::optim
