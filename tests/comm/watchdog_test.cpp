#include "wmtp/comm/watch/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "support/temp_dir.h"
#include "wmtp/comm/watch/heartbeat.h"
#include "wmtp/comm/watch/rank_state.h"
#include "wmtp/core/time.h"

namespace wmtp::comm {
namespace {

using std::chrono::milliseconds;

TEST(Watchdog, DeadlineOfASingleProcess) {
  std::promise<Failure> left;
  const test::TempDir dir;
  Watchdog dog(
      {.run_dir = dir.path(), .leave = [&](const Failure& failure) { left.set_value(failure); }});
  dog.set_step(12);
  dog.enter("step", milliseconds(200));
  const auto start = Clock::now();
  auto future = left.get_future();
  ASSERT_EQ(future.wait_for(std::chrono::seconds(5)), std::future_status::ready);
  EXPECT_GE(seconds_since(start), 0.19);
  EXPECT_LT(seconds_since(start), 1.2);
  const Failure failure = future.get();
  EXPECT_EQ(failure.code, 75);
  EXPECT_THAT(failure.message,
              testing::HasSubstr("no progress in section 'step' (step 12) for 0.2 s"));
  EXPECT_TRUE(std::filesystem::exists(dir / "hang-12.json"));
}

TEST(Watchdog, ProgressKeepsItQuiet) {
  std::atomic<int> calls = 0;
  Watchdog dog({.leave = [&](const Failure&) { ++calls; }});
  dog.enter("load", milliseconds(500));
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(milliseconds(100));
    dog.progress();
  }
  dog.enter("idle", milliseconds(0));
  std::this_thread::sleep_for(milliseconds(600));
  EXPECT_EQ(calls, 0);
}

TEST(Watchdog, AStopThatIsNotSavedInTimeLeavesWith81HoweverItGetsOn) {
  std::promise<Failure> left;
  const test::TempDir dir;
  Watchdog dog(
      {.run_dir = dir.path(), .leave = [&](const Failure& failure) { left.set_value(failure); }});
  dog.set_step(12);
  dog.limit_stop(milliseconds(300));
  dog.limit_stop(std::chrono::seconds(60));  // the first counts
  dog.enter("save", std::chrono::seconds(60));
  auto future = left.get_future();
  for (int i = 0; i < 50 && future.wait_for(milliseconds(100)) != std::future_status::ready; ++i)
    dog.progress();
  ASSERT_EQ(future.wait_for(milliseconds(0)), std::future_status::ready);
  const Failure failure = future.get();
  EXPECT_EQ(failure.code, 81);
  EXPECT_THAT(failure.message, testing::HasSubstr("the stop at step 12 was not saved within"));
  EXPECT_FALSE(std::filesystem::exists(dir / "hang-12.json"));
}

TEST(Watchdog, ASavedStopHasNoLimitAnyMore) {
  std::atomic<int> calls = 0;
  Watchdog dog({.leave = [&](const Failure&) { ++calls; }});
  dog.limit_stop(milliseconds(200));
  dog.limit_stop(milliseconds(0));
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_EQ(calls, 0);
}

TEST(Watchdog, AllRanksLeaveWith81WhenOneHasNoTimeLeft) {
  const Store store = Store::in_process();
  std::promise<Failure> first_left, second_left;
  Watchdog first({.rank = 0, .world = 2, .store = store, .leave = [&](const Failure& f) {
                    first_left.set_value(f);
                  }});
  Watchdog second({.rank = 1, .world = 2, .store = store, .leave = [&](const Failure& f) {
                     second_left.set_value(f);
                   }});
  second.limit_stop(milliseconds(100));
  for (std::promise<Failure>* left : {&first_left, &second_left}) {
    auto future = left->get_future();
    ASSERT_EQ(future.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    EXPECT_EQ(future.get().code, 81);
  }
}

TEST(Watchdog, FirstPostStands) {
  const Store store = Store::in_process();
  std::promise<Failure> left;
  Watchdog first({.rank = 0, .world = 2, .store = store, .leave = [&](const Failure& f) {
                    left.set_value(f);
                  }});
  Watchdog second({.rank = 1, .world = 2, .store = store, .leave = [](const Failure&) {}});
  EXPECT_FALSE(second.posted(milliseconds(50)));
  EXPECT_EQ(second.post({1, 65, "bad sample"}).code, 65);
  EXPECT_EQ(first.post({0, 75, "peer lost"}).code, 65);
  auto future = left.get_future();
  ASSERT_EQ(future.wait_for(std::chrono::seconds(5)), std::future_status::ready);
  EXPECT_EQ(future.get().message, "bad sample");
}

// A rank that has told of its failure may need long to end; peers that leave for it are no new one.
TEST(Watchdog, LeavesWithWhatItHasPosted) {
  const Store store = Store::in_process();
  std::promise<Failure> left;
  Watchdog dog({.rank = 1,
                .world = 2,
                .store = store,
                .beat = milliseconds(50),
                .dead_after = milliseconds(500),
                .leave = [&](const Failure& f) { left.set_value(f); }});
  EXPECT_EQ(dog.post({1, 65, "bad sample"}).code, 65);
  auto future = left.get_future();  // rank 0 never beats
  ASSERT_EQ(future.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(future.get().code, 65);
}

TEST(Watchdog, StepLimit) {
  StepLimit limit(60);
  EXPECT_EQ(limit.limit_s(), 60);
  limit.add(20);
  EXPECT_EQ(limit.limit_s(), 100);
  for (int i = 0; i < 100; ++i) limit.add(1);
  EXPECT_EQ(limit.limit_s(), 60);
}

TEST(RankState, SurvivesTheStore) {
  RankState state{7, "step", 12, {{"gather", {9, "all_gather 8 fp32 unit 1", false}}}, false};
  const auto back = decode_rank_state(encode(state));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->groups.at("gather").what, "all_gather 8 fp32 unit 1");
  EXPECT_EQ(encode(*back), encode(state));
  for (const char* foreign : {"", "{", "[]", "{\"beat\": -1}", "{\"beat\":1,\"section\":2}"})
    EXPECT_FALSE(decode_rank_state(foreign)) << foreign;
}

TEST(RankState, WhoIsBehind) {
  const auto at = [](std::uint64_t number, double silent) {
    return PeerView{RankState{1, "step", 3, {{"reduce", {number, "all_reduce", false}}}, false},
                    silent};
  };
  EXPECT_EQ(report_hang({"late", 0, 2.5, {{0, at(5, 0)}, {1, at(4, 1)}, {2, at(5, 0)}}}).behind,
            std::vector{1});
  EXPECT_EQ(report_hang({"late", 0, 2.5, {{0, at(5, 0)}, {1, at(4, 0)}, {2, at(5, 9)}}}).behind,
            std::vector{2});
  EXPECT_TRUE(report_hang({"late", 0, 2.5, {{0, at(5, 0)}, {1, at(5, 0)}}}).behind.empty());
  EXPECT_EQ(report_hang({"late", 0, 2.5, {{0, at(5, 0)}, {1, {}}}}).behind, std::vector{1});
}

// A file store only grows; the beats must not make it do so.
TEST(Heartbeats, FileSlotsDoNotGrow) {
  const test::TempDir dir;
  const Store store = Store::file(dir.path()).prefixed("run");
  Heartbeats zero(store, 0), one(store, 1);
  EXPECT_FALSE(zero.read(1));
  const auto bytes = [&] {
    std::uintmax_t total = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
      total += entry.file_size();
    return total;
  };
  one.leave("beat 0");
  zero.leave("beat 0");
  const auto before = bytes();
  for (int i = 1; i <= 100; ++i) one.leave("beat " + std::to_string(i));
  EXPECT_EQ(zero.read(1), "beat 100");
  EXPECT_EQ(bytes(), before);
  one.leave(std::string(5000, 'x'));
  EXPECT_EQ(zero.read(1), std::string(Heartbeats::kMaxTextBytes, 'x'));
  EXPECT_EQ(one.read(0), "beat 0");
}

}  // namespace
}  // namespace wmtp::comm
