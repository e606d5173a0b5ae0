// What spans add up to, worked out by hand; and traces that Kineto could not write whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/run/profile/step_range.h"
#include "wmtp/run/profile/time_table.h"
#include "wmtp/run/profile/trace_file.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::run {
namespace {

using tracking::ProfileRow;
using Kind = ProfiledSpan::Kind;
using ::testing::ElementsAre;

constexpr std::int64_t kSecond = 1'000'000'000;

ProfiledSpan span(const char* name, Kind kind, std::int64_t begin_s, std::int64_t end_s) {
  return {name, kind, begin_s * kSecond, end_s * kSecond};
}

std::vector<ProfiledSpan> two_steps() {
  return {
      span("between", Kind::scope, 40, 42),          span("aten::copy_", Kind::operation, 40, 41),
      span("step 1", Kind::scope, 10, 40),           span("forward", Kind::scope, 12, 20),
      span("forward layers.0", Kind::scope, 13, 19), span("aten::linear", Kind::operation, 13, 18),
      span("aten::mm", Kind::operation, 14, 17),     span("update", Kind::scope, 20, 30),
      span("wmtp::adamw", Kind::operation, 21, 29),  span("step 2", Kind::scope, 45, 50),
      span("forward", Kind::scope, 45, 47),          span("aten::mm", Kind::operation, 45, 47),
      span("outside", Kind::operation, 60, 70)};
}

TEST(TimeTable, OperatorsCountByTheirOwnTimeAndAddUpWithTheGaps) {
  const tracking::ProfileSummary summary = time_table(two_steps(), {1, 2});
  EXPECT_EQ(summary.wall_s, 40);
  EXPECT_THAT(summary.operators,
              ElementsAre(ProfileRow{"wmtp::adamw", 1, 8}, ProfileRow{"aten::mm", 2, 5},
                          ProfileRow{"aten::linear", 1, 2}, ProfileRow{"aten::copy_", 1, 1}));
  EXPECT_EQ(summary.gemm_s, 5);
  EXPECT_EQ(summary.gap_s, 40 - 16);
}

TEST(TimeTable, PhasesAreWhatLiesDirectlyInAStep) {
  const tracking::ProfileSummary summary = time_table(two_steps(), {1, 2});
  EXPECT_THAT(summary.phases, ElementsAre(ProfileRow{"forward", 2, 10}, ProfileRow{"update", 1, 10},
                                          ProfileRow{"other parts of steps", 0, 35 - 20},
                                          ProfileRow{"between steps", 0, 5}));
}

TEST(TimeTable, KernelsOfADeviceTakeThePlaceOfOperators) {
  std::vector<ProfiledSpan> spans = two_steps();
  spans.push_back(span("sm90_xmma_gemm", Kind::device, 11, 21));
  spans.push_back(span("rms_norm", Kind::device, 15, 25));  // on another stream
  const tracking::ProfileSummary summary = time_table(spans, {1, 2});
  EXPECT_THAT(summary.operators,
              ElementsAre(ProfileRow{"sm90_xmma_gemm", 1, 10}, ProfileRow{"rms_norm", 1, 10}));
  EXPECT_EQ(summary.gemm_s, 10);
  EXPECT_EQ(summary.gap_s, 40 - 14);
}

// The host has started all of step 2 long before the device is done with it.
TEST(TimeTable, TheTimeGoesOnUntilTheDeviceHasEnded) {
  std::vector<ProfiledSpan> spans = two_steps();
  spans.push_back(span("sm90_xmma_gemm", Kind::device, 41, 51));
  spans.push_back(span("adamw", Kind::device, 52, 58));
  const tracking::ProfileSummary summary = time_table(spans, {1, 2});
  EXPECT_EQ(summary.wall_s, 48);
  EXPECT_THAT(summary.operators,
              ElementsAre(ProfileRow{"sm90_xmma_gemm", 1, 10}, ProfileRow{"adamw", 1, 6}));
  EXPECT_EQ(summary.gap_s, 48 - 16);
  EXPECT_THAT(summary.phases, ElementsAre(ProfileRow{"forward", 2, 10}, ProfileRow{"update", 1, 10},
                                          ProfileRow{"other parts of steps", 0, 35 - 20},
                                          ProfileRow{"between steps", 0, 5},
                                          ProfileRow{"until the device ended", 0, 8}));
}

TEST(TimeTable, WithoutAStepAllIsZero) {
  const tracking::ProfileSummary summary =
      time_table(std::vector{span("aten::mm", Kind::operation, 1, 2)}, {1, 1});
  EXPECT_EQ(summary.wall_s, 0);
  EXPECT_EQ(summary.gap_s, 0);
  EXPECT_TRUE(summary.operators.empty());
}

TEST(StepRanges, AreOneStepOrTwoWithADash) {
  EXPECT_EQ(step_range("3", "--profile"), (StepRange{3, 3}));
  EXPECT_EQ(step_range("10-12", "--profile"), (StepRange{10, 12}));
  EXPECT_EQ(name_of({3, 3}), "step 3");
  EXPECT_EQ(name_of({10, 12}), "steps 10 to 12");
  for (const char* text : {"", "-", "3-", "-3", "0", "0-2", "4-3", "1-2-3", " 3", "3x", "+3"})
    EXPECT_WMTP_ERROR(step_range(text, "--profile"), ErrorKind::config, "--profile");
}

void write_text(const std::string& path, std::string_view text) {
  std::ofstream(path) << text;
}

TEST(TraceFile, IsWholeOrNotThere) {
  const test::TempDir folder;
  const auto trace = folder / "rank_0.json";
  const auto write = [&](std::string_view text) {
    write_trace(trace, storage::AtomicFile::kPrivate,
                [&](const std::string& path) { write_text(path, text); });
  };
  EXPECT_WMTP_ERROR(write_trace(trace, storage::AtomicFile::kPrivate, [](const std::string&) {}),
                    ErrorKind::io, "no trace was written");
  EXPECT_WMTP_ERROR(write("{\"traceEvents\": [ {\"na"), ErrorKind::io, "not written whole");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  write("{\"traceEvents\": [],\n  \"traceName\": \"/some/pl\"ace\"\n}");
  EXPECT_EQ(read_json(trace), Json({{"traceEvents", Json::array()}, {"traceName", "rank_0.json"}}));
  const auto names = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(names), end(names)), 1);
}

}  // namespace
}  // namespace wmtp::run
