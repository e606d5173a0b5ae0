// SIGKILL at any microsecond and at any failpoint: nothing acknowledged is lost, nothing torn is
// seen, and the next start goes on.
#include <gtest/gtest.h>

#include "checkpoint/life.h"
#include "support/soak.h"
#include "support/temp_dir.h"
#include "wmtp/core/time.h"

namespace wmtp::checkpoint {
namespace {

using life::broken_promise;
using life::Child;
using life::Life;

constexpr int kKills = 2000;

#ifdef WMTP_FAILPOINTS
// All but the one that only a damaged checkpoint leads to: there is none here.
std::vector<std::string> points_to_kill_at() {
  std::vector<std::string> names;
  for (const failpoint::Point& point : life::engine_points())
    if (point.name != "load.quarantine.rename") names.emplace_back(point.name);
  return names;
}
#endif

class KillStorm : public testing::Test {
 protected:
  KillStorm() {
    life::use_fast_temp_dir();
    folder = std::make_unique<test::TempDir>();
  }
  // One life with a kill in it. Returns whether the kill came before its end.
  bool kill_once(const Life& life, RngStream& rng, std::uint64_t max_delay_us) {
    Child child(life);
    if (life.failpoints.empty()) {
      ::usleep(static_cast<useconds_t>(rng.below(max_delay_us)));
      child.kill();
    }
    const int code = child.wait();
    EXPECT_TRUE(code == life::kDone || code == 128 + SIGKILL) << code;
    for (const std::int64_t step : child.acknowledged()) {
      EXPECT_GT(step, newest);
      newest = std::max(newest, step);
    }
    return code != life::kDone;
  }
  // A life without faults; how long it takes sets the window for kills.
  std::uint64_t healthy_us() {
    const auto start = Clock::now();
    Child child({.save_dir = folder->path(), .num_steps = 6, .num_threads = 2});
    EXPECT_EQ(child.wait(), life::kDone);
    for (const std::int64_t step : child.acknowledged()) newest = step;
    return static_cast<std::uint64_t>(seconds_since(start) * 1e6);
  }

  std::unique_ptr<test::TempDir> folder;
  std::int64_t newest = 0;
};

TEST_F(KillStorm, NothingAcknowledgedIsLostNothingTornIsSeen) {
  const std::uint64_t window_us = healthy_us();
  ASSERT_EQ(newest, 6);
  ASSERT_EQ(broken_promise(folder->path(), newest), "");
  RngStream rng(1, "kill_storm");
  const test::TempDir logs;
  int num_kills = 0;
  const auto start = Clock::now();
  for (int i = 0; num_kills < kKills * test::soak_factor(); ++i) {
    Life life{.save_dir = folder->path(), .num_steps = 6, .num_threads = 2};
    life.attempt = std::to_string(i);
#ifdef WMTP_FAILPOINTS
    if (i % 2 == 0) {
      static const auto points = points_to_kill_at();
      life.failpoints =
          fmt::format("{}:nth={}=kill", points[rng.below(points.size())], 1 + rng.below(12));
      life.failpoint_log = logs / "hits";
    }
#endif
    num_kills += kill_once(life, rng, window_us);
    ASSERT_EQ(broken_promise(folder->path(), newest), "") << "after kill " << num_kills;
  }
  std::printf("G1: %d kills, none lost, none torn; %.1f ms each, step %ld acknowledged\n",
              num_kills, seconds_since(start) * 1000 / num_kills, static_cast<long>(newest));
#ifdef WMTP_FAILPOINTS
  const std::string hits = test::slurp(logs / "hits");
  for (const std::string& point : points_to_kill_at())
    EXPECT_NE(hits.find(point + " "), std::string::npos) << point << " was never reached";
#endif
  healthy_us();
  EXPECT_EQ(broken_promise(folder->path(), newest), "");
  std::string names;
  for (const auto& entry : storage::LocalFileSystem().list(folder->path()))
    names += entry.name[0] == '.' ? entry.name + " " : "";
  EXPECT_EQ(names, ".tiny.lock.turn ");  // a run that ends in peace leaves no temporary things
}

#ifdef WMTP_FAILPOINTS
// The oracle must see what it is there for.
TEST_F(KillStorm, ControlWithoutTheRenameTheStormFails) {
  healthy_us();
  Child child({.save_dir = folder->path(),
               .num_threads = 2,
               .failpoints = "save.rename.before:nth=1+=skip"});
  EXPECT_EQ(child.wait(), life::kDone);
  newest = child.acknowledged().back();
  EXPECT_NE(broken_promise(folder->path(), newest), "");
}

TEST_F(KillStorm, ControlWithAHalfWrittenShardTheStormFails) {
  healthy_us();
  Child child({.save_dir = folder->path(), .num_threads = 2, .failpoints = "save.shard.half=skip"});
  EXPECT_EQ(child.wait(), life::kDone);
  newest = child.acknowledged().back();
  EXPECT_NE(broken_promise(folder->path(), newest), "");
}
#endif

}  // namespace
}  // namespace wmtp::checkpoint
