#include "wmtp/optim/loss_scale.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace wmtp::optim {
namespace {

struct Scale {
  explicit Scale(const LossScaleSettings& settings) : scale(settings, c10::Device(c10::kCPU)) {}
  void good(int steps = 1) { repeat(false, true, steps); }
  void overflow(int steps = 1) { repeat(true, false, steps); }
  void skipped(int steps = 1) { repeat(false, false, steps); }
  void repeat(bool is_overflow, bool is_good, int steps) {
    for (int i = 0; i < steps; ++i)
      scale.update(at::full({}, is_overflow, at::kBool), at::full({}, is_good ? 1 : 0, at::kInt));
  }
  LossScale scale;
};

TEST(LossScale, StartsHalvesAndGrows) {
  Scale one({});
  EXPECT_EQ(one.scale.state(), (LossScale::State{65536, 0}));
  one.good(1999);
  EXPECT_EQ(one.scale.state(), (LossScale::State{65536, 1999}));
  one.good();
  EXPECT_EQ(one.scale.state(), (LossScale::State{131072, 0}));
  one.good(5);
  one.overflow();
  EXPECT_EQ(one.scale.state(), (LossScale::State{65536, 0}));
  one.skipped(3);
  EXPECT_EQ(one.scale.state(), (LossScale::State{65536, 0}));
}

TEST(LossScale, NeverFallsBelowOne) {
  Scale one({.start = 4, .growth_interval = 2});
  one.overflow(5);
  EXPECT_EQ(one.scale.state().scale, 1);
  one.good(2);
  EXPECT_EQ(one.scale.state().scale, 2);
}

// The tensor that was handed out follows.
TEST(LossScale, ChangesInPlace) {
  Scale one({});
  const Tensor value = one.scale.value();
  one.overflow();
  EXPECT_EQ(value.item<double>(), 32768);
}

TEST(LossScale, GoesOnFromASavedState) {
  Scale straight({.growth_interval = 10}), resumed({.growth_interval = 10});
  straight.overflow(2);
  straight.good(7);
  resumed.scale.restore(straight.scale.state());
  for (Scale* one : {&straight, &resumed}) one->good(4);
  EXPECT_EQ(straight.scale.state(), resumed.scale.state());
  EXPECT_EQ(resumed.scale.state(), (LossScale::State{32768, 1}));
  EXPECT_WMTP_ERROR(resumed.scale.restore({0, 0}), ErrorKind::checkpoint, "cannot be");
  EXPECT_WMTP_ERROR(resumed.scale.restore({NAN, 0}), ErrorKind::checkpoint, "cannot be");
}

}  // namespace
}  // namespace wmtp::optim
