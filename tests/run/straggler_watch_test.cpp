// Who is named as a straggler, when, and for what.
#include "wmtp/run/report/straggler_watch.h"

#include <gtest/gtest.h>

#include <cmath>

namespace wmtp::test {
namespace {

using run::OwnTime;
using run::RankSpeeds;
using run::StragglerWatch;

// Seconds of compute, data and communication, by rank.
using Rows = std::vector<std::vector<double>>;

std::vector<int> named(const std::optional<RankSpeeds>& speeds) {
  std::vector<int> ranks;
  for (const run::Straggler& one : speeds.value().stragglers) ranks.push_back(one.rank);
  return ranks;
}

TEST(OwnTimes, TheLongestStepIsLeftOut) {
  run::OwnTimes times;
  for (const double compute : {0.1, 0.1, 9.0, 0.4}) times.add({compute, 0.01, 0.02});
  const OwnTime mean = times.take().value();
  EXPECT_DOUBLE_EQ(mean.compute_s, 0.2);
  EXPECT_DOUBLE_EQ(mean.data_s, 0.01);
  EXPECT_DOUBLE_EQ(mean.comm_s, 0.02);
  EXPECT_FALSE(times.take());  // each step once
}

TEST(StragglerWatch, NamesTheSlowWithTheirCauseTheSlowestFirst) {
  StragglerWatch watch({"a", "b", "c", "d"});
  const Rows rows{{0.10, 0.01, 0.01}, {0.20, 0.01, 0.01}, {0.11, 0.20, 0.01}, {0.10, 0.01, 0.07}};
  const auto speeds = watch.compare(30, rows);
  ASSERT_EQ(named(speeds), (std::vector{2, 1, 3}));
  EXPECT_EQ(speeds->stragglers[0].cause, "data");
  EXPECT_EQ(speeds->stragglers[0].host, "c");
  EXPECT_EQ(speeds->stragglers[1].cause, "compute");
  EXPECT_EQ(speeds->stragglers[2].cause, "communication");
  EXPECT_EQ(speeds->fastest_rank, 0);
  EXPECT_DOUBLE_EQ(speeds->slowest, 0.12 / 0.32);
}

TEST(StragglerWatch, ThreeQuartersOfTheFastestAreFastEnough) {
  StragglerWatch watch({"a", "b"});
  EXPECT_TRUE(named(watch.compare(30, Rows{{0.0751, 0, 0}, {0.1, 0, 0}})).empty());
  EXPECT_EQ(named(watch.compare(60, Rows{{0.0749, 0, 0}, {0.1, 0, 0}})), std::vector{1});
}

TEST(StragglerWatch, LessThanTwoMillisecondsAStepAreNoMatter) {
  StragglerWatch watch({"a", "b"});
  EXPECT_TRUE(named(watch.compare(30, Rows{{0.001, 0, 0}, {0.0029, 0, 0}})).empty());
  EXPECT_EQ(named(watch.compare(60, Rows{{0.001, 0, 0}, {0.0031, 0, 0}})), std::vector{1});
}

TEST(StragglerWatch, ARankIsNamedOnceInFiveHundredSteps) {
  StragglerWatch watch({"a", "b"});
  const Rows slow{{0.1, 0, 0}, {0.3, 0, 0}};
  std::vector<std::int64_t> told;
  for (std::int64_t step = 30; step <= 1200; step += StragglerWatch::kWindow)
    if (!named(watch.compare(step, slow)).empty()) told.push_back(step);
  EXPECT_EQ(told, (std::vector<std::int64_t>{30, 540, 1050}));
}

TEST(StragglerWatch, ARankWithoutTimesIsLeftOutAndNoWindowHasNoSpeeds) {
  StragglerWatch watch({"a", "b", "c"});
  EXPECT_EQ(named(watch.compare(30, Rows{{0.1, 0, 0}, {NAN, NAN, NAN}, {0.3, 0, 0}})),
            std::vector{2});
  EXPECT_FALSE(watch.compare(60, Rows{{0.1, 0, 0}, {NAN, NAN, NAN}, {NAN, NAN, NAN}}));
  EXPECT_FALSE(watch.compare(61, Rows{}));
}

}  // namespace
}  // namespace wmtp::test
