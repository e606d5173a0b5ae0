#include "wmtp/optim/adamw.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "wmtp/optim/clip.h"

namespace wmtp::optim {
namespace {

struct OneParameter {
  layout::BucketPlan plan{{{"p", {1}}}, 1};
  Tensor master = at::ones({128}, at::kDouble), grad = at::zeros({128}, at::kDouble);
  AdamW adamw{{{.plan = plan, .master = master, .grad = grad}},
              {.groups = {{"policy", 0.1, 0.01}}, .group_of = nullptr},
              {}};

  void step(double g, int apply = 1) {
    grad[0] = g;
    adamw.apply({.grad_scale = at::ones({}, at::kDouble), .apply = at::full({}, apply, at::kInt)});
  }
  double value() const { return master[0].item<double>(); }
};

TEST(AdamW, EachUnitIsUpdatedByTheCallOfItsName) {
  const layout::BucketPlan plan{{{"p", {1}}}, 1};
  std::vector<TrainedShard> shards;
  for (const int unit : {4, 0, 7})
    shards.push_back({.plan = plan,
                      .master = at::ones({128}, at::kDouble),
                      .grad = at::ones({128}, at::kDouble),
                      .unit = UnitId(unit)});
  AdamW adamw(shards, {.groups = {{"policy", 0.1, 0.01}}, .group_of = nullptr}, {});
  std::string story;
  adamw.apply({.grad_scale = at::ones({}, at::kDouble), .apply = at::full({}, 1, at::kInt)},
              [&](UnitId unit, const std::function<void()>& update) {
                update();
                story += std::to_string(unit.value()) + ":";
                for (const TrainedShard& shard : shards)
                  story += shard.master[0].item<double>() < 1 ? '+' : '-';
                story += ' ';
              });
  EXPECT_EQ(story, "4:+-- 0:++- 7:+++ ");
}

// Vector V43.
TEST(AdamW, TwoStepsFromZeroMoments) {
  OneParameter one;
  one.step(.5);
  EXPECT_NEAR(one.value(), .899000002, 1e-8);
  one.step(-.2);
  EXPECT_NEAR(one.value(), .863221345, 1e-8);
}

TEST(AdamW, ABadStepChangesNothing) {
  OneParameter one, straight;
  one.step(.5);
  one.step(std::nan(""), 0);
  one.step(-.2);
  straight.step(.5);
  straight.step(-.2);
  EXPECT_EQ(one.value(), straight.value());
  EXPECT_EQ(one.adamw.applied_steps().item<std::int64_t>(), 2);
}

// Vector V44.
TEST(Clip, ScalesToTheMaximumNormOnlyAboveIt) {
  const Tensor squared = at::full({}, 25.0, at::kDouble);
  EXPECT_NEAR(3 * clip_scale(squared, 1, at::kDouble).item<double>(), .59999988, 1e-7);
  EXPECT_EQ(clip_scale(squared, 10, at::kDouble).item<double>(), 1.0);
  EXPECT_EQ(clip_scale(squared, 0, at::kDouble).item<double>(), 1.0);
}

}  // namespace
}  // namespace wmtp::optim
