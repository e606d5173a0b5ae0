#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "wmtp/cli/stop_signals.h"
#include "wmtp/tracking/point.h"

namespace wmtp::cli {
namespace {

using Table = std::map<std::string, std::string>;

std::optional<double> stop_at_s(const Table& table, std::optional<std::int64_t> before_end_s,
                                double save_s = 0) {
  return TimeLimit(comm::environment_of(table), before_end_s).stop_at_s(save_s);
}

TEST(TimeLimit, TheAskedTimeBeforeTheEnd) {
  EXPECT_EQ(stop_at_s({}, std::nullopt), std::nullopt);
  EXPECT_EQ(stop_at_s({{"WMTP_STOP_AT", "2000000000"}}, 300), 2'000'000'000 - 300);
  EXPECT_EQ(stop_at_s({{"SLURM_JOB_END_TIME", "2000000500"}}, 300), 2'000'000'500 - 300);
  const Table both{{"SLURM_JOB_END_TIME", "2000000500"}, {"WMTP_STOP_AT", "2000000000"}};
  EXPECT_EQ(stop_at_s(both, 300), 2'000'000'000 - 300) << "the one that was meant for wmtp";
}

TEST(TimeLimit, WithoutAWishTwiceTheTimeOfASaveAndAMinute) {
  const Table table{{"WMTP_STOP_AT", "2000000000"}};
  EXPECT_EQ(stop_at_s(table, std::nullopt), 2'000'000'000 - 60) << "none measured yet";
  EXPECT_EQ(stop_at_s(table, std::nullopt, 45), 2'000'000'000 - 150);
  EXPECT_EQ(stop_at_s(table, 300, 45), 2'000'000'000 - 300);
}

TEST(TimeLimit, ZeroIsOffAndReadsNothing) {
  EXPECT_EQ(stop_at_s({{"WMTP_STOP_AT", "soon"}}, 0), std::nullopt);
}

TEST(TimeLimit, WhatIsNoTimeIsRefusedByName) {
  for (const char* text : {"soon", "12x", "-5", "0", "1e9", " 2000000000", "99999999999999",
                           "2026-11-16T12:00:00", "9999999999999999999999"}) {
    EXPECT_WMTP_ERROR(stop_at_s({{"WMTP_STOP_AT", text}}, std::nullopt), ErrorKind::config,
                      "WMTP_STOP_AT=");
    EXPECT_WMTP_ERROR(stop_at_s({{"SLURM_JOB_END_TIME", text}}, 60), ErrorKind::config,
                      "SLURM_JOB_END_TIME=");
  }
}

TEST(TimeLimit, AStopHasItsGraceAndAtTheLimitAllThatIsLeft) {
  const auto in_an_hour = std::to_string(static_cast<std::int64_t>(tracking::wall_time_s()) + 3600);
  const comm::EnvLookup environment = comm::environment_of({{"WMTP_STOP_AT", in_an_hour}});
  run::RunProgress progress;
  StopSignals early("", TimeLimit(environment, 60), progress);
  EXPECT_FALSE(early.requested());
  EXPECT_EQ(early.grace(90), std::chrono::seconds(90)) << "somebody else asked for the stop";
  StopSignals at_limit("", TimeLimit(environment, 3700), progress);
  EXPECT_TRUE(at_limit.is_too_late(/*tell=*/false));
  EXPECT_TRUE(at_limit.requested());
  EXPECT_GT(at_limit.grace(90), std::chrono::seconds(3500));
  EXPECT_EQ(at_limit.grace(7200), std::chrono::seconds(7200));
  StopSignals by_saves("", TimeLimit(environment, std::nullopt), progress);
  EXPECT_FALSE(by_saves.requested());
  progress.save_ms = 1'790'000;
  EXPECT_TRUE(by_saves.requested()) << "2 x 1790 s and 60 s are more than an hour";
}

}  // namespace
}  // namespace wmtp::cli
