#include "wmtp/tracking/eta.h"

#include <gtest/gtest.h>

namespace wmtp::tracking {
namespace {

TEST(Eta, AppearsAfterTenSteps) {
  EtaEstimator eta;
  for (int i = 0; i < 9; ++i) eta.add_step(2);
  EXPECT_FALSE(eta.remaining_s({.num_steps = 5}));
  eta.add_step(2);
  EXPECT_DOUBLE_EQ(eta.remaining_s({.num_steps = 5}).value(), 10);
}

TEST(Eta, MedianIgnoresASlowStep) {
  EtaEstimator eta;
  eta.add_step(1000);  // the first step of a run compiles, allocates, warms up
  for (int i = 0; i < 9; ++i) eta.add_step(1);
  EXPECT_DOUBLE_EQ(eta.remaining_s({.num_steps = 100}).value(), 100);
}

TEST(Eta, MedianOfAnEvenCountIsBetweenTheMiddleTwo) {
  EtaEstimator eta;
  for (int i = 1; i <= 10; ++i) eta.add_step(i);
  EXPECT_DOUBLE_EQ(eta.remaining_s({.num_steps = 2}).value(), 11);
}

TEST(Eta, LooksAtTheLastFiftyStepsOnly) {
  EtaEstimator eta;
  for (int i = 0; i < 200; ++i) eta.add_step(9);
  for (int i = 0; i < 50; ++i) eta.add_step(3);
  EXPECT_DOUBLE_EQ(eta.remaining_s({.num_steps = 1}).value(), 3);
}

TEST(Eta, AddsValidationsAndSavesAtTheirMeans) {
  EtaEstimator eta;
  for (int i = 0; i < 10; ++i) eta.add_step(1);
  const RemainingWork work{.num_steps = 100, .num_validations = 4, .num_saves = 3};
  EXPECT_DOUBLE_EQ(eta.remaining_s(work).value(), 100);  // their times are not known yet
  eta.add_validation(10);
  eta.add_validation(20);
  eta.add_save(0.5);
  EXPECT_DOUBLE_EQ(eta.remaining_s(work).value(), 100 + 4 * 15 + 3 * 0.5);
}

}  // namespace
}  // namespace wmtp::tracking
