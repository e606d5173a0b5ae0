// Every failpoint of saving, retention and loading x {kill, eio, enospc, short} x rank, with two
// ranks that are processes.
#include <gtest/gtest.h>

#include "commit/life.h"
#include "support/soak.h"
#include "support/temp_dir.h"

#ifdef WMTP_FAILPOINTS
namespace wmtp::commit {
namespace {

using failpoint::Action;
using life::broken_promise;
using life::Child;
using life::Life;

// The copy aside is the trainer's.
bool is_ours(std::string_view name) {
  if (name == "save.stage.memory") return false;
  return name.starts_with("save.") || name.starts_with("retain.") || name.starts_with("load.");
}

// What rank 1 has no part in.
bool is_of_rank_0(std::string_view name) {
  return !(name.starts_with("save.shard.") || name.starts_with("save.vote.") ||
           name == "save.stage.begin" || name == "load.manifest.read" || name == "load.box.read");
}

class FailpointMatrix : public testing::Test {
 protected:
  FailpointMatrix() {
    life::use_fast_temp_dir();
    template_ = std::make_unique<test::TempDir>();
    storage::LocalFileSystem files;
    for (int step = 1; step <= 3; ++step) tiny::expect_saved(files, template_->path(), step, 2);
  }

  struct Result {
    std::int64_t newest = 3;
    std::array<int, 2> codes{};
  };

  Result run(const std::filesystem::path& save_dir, const std::string& spec) {
    const test::TempDir votes;
    Life life{.save_dir = save_dir, .world_size = 2, .vote_dir = votes.path()};
    life.failpoints = spec;
    life.failpoint_log = log_path();
    Child first(life);
    life.rank = 1;
    Child second(life);
    Result result;
    result.codes = end_of(first, second);
    for (const std::int64_t step : first.acknowledged())
      result.newest = std::max(result.newest, step);
    return result;
  }

  // As a launcher does: when one rank was killed, the other has a moment to do wrong, then goes
  // too.
  static std::array<int, 2> end_of(Child& first, Child& second) {
    std::array<std::optional<int>, 2> codes;
    while (!codes[0] || !codes[1]) {
      if (!codes[0]) codes[0] = first.try_wait();
      if (!codes[1]) codes[1] = second.try_wait();
      const bool one_killed = codes[0] == 128 + SIGKILL || codes[1] == 128 + SIGKILL;
      if (one_killed && !(codes[0] && codes[1])) {
        ::usleep(30'000);
        (codes[0] ? second : first).kill();
      }
      ::usleep(200);
    }
    return {*codes[0], *codes[1]};
  }

  std::filesystem::path log_path() const { return *template_ / "log"; }
  std::filesystem::path fresh_copy(const test::TempDir& folder) const {
    const std::filesystem::path copy = folder / "s";
    std::filesystem::create_directory(copy);
    for (int step = 1; step <= 3; ++step) {
      const std::string name = checkpoint_name(tiny::kModel, step);
      std::filesystem::copy(*template_ / name, copy / name,
                            std::filesystem::copy_options::recursive);
    }
    return copy;
  }
  bool was_hit(const std::string& point, int rank) const {
    return std::filesystem::exists(log_path()) &&
           test::slurp(log_path()).find(fmt::format("{} {} ", point, rank)) != std::string::npos;
  }

  void check(const std::string& point, int rank, const std::string& action) {
    SCOPED_TRACE(fmt::format("{} rank {} {}", point, rank, action));
    const test::TempDir folder;
    const std::filesystem::path save_dir = fresh_copy(folder);
    const bool quarantines = point == "load.quarantine.rename";
    if (quarantines) test::write_file(save_dir / "tiny-3steps" / "manifest.json", "{");
    std::filesystem::remove(log_path());
    const Result result = run(save_dir, fmt::format("{}:rank={}={}", point, rank, action));
    EXPECT_TRUE(was_hit(point, rank));
    const std::int64_t newest = quarantines && result.newest == 3 ? 2 : result.newest;
    if (quarantines) std::filesystem::remove_all(save_dir / "tiny-3steps.bad-1");
    if (quarantines && !tiny::fault_of(files_, save_dir / "tiny-3steps", 3).empty())
      std::filesystem::remove_all(save_dir / "tiny-3steps");
    EXPECT_EQ(broken_promise(save_dir, newest), "");
    if (action == "kill") {
      EXPECT_EQ(result.codes[static_cast<std::size_t>(rank)], 128 + SIGKILL);
      EXPECT_NE(result.codes[static_cast<std::size_t>(1 - rank)], life::kWrongState);
    } else {  // a failed call is survived, and later saves succeed
      EXPECT_EQ(result.codes, (std::array{0, 0}));
      EXPECT_GE(result.newest, quarantines ? 4 : 5);
    }
    const Result again = run(save_dir, "");
    EXPECT_EQ(again.codes, (std::array{0, 0}));
    EXPECT_GT(again.newest, newest);
    EXPECT_EQ(broken_promise(save_dir, again.newest), "");
  }

  const storage::LocalFileSystem files_;
  std::unique_ptr<test::TempDir> template_;
};

TEST_F(FailpointMatrix, HealthyRunPasses) {
  const test::TempDir folder;
  const std::filesystem::path save_dir = fresh_copy(folder);
  const Result result = run(save_dir, "");
  EXPECT_EQ(result.codes, (std::array{0, 0}));
  EXPECT_EQ(result.newest, 6);
  EXPECT_EQ(broken_promise(save_dir, 6), "");
}

TEST_F(FailpointMatrix, EveryPointActionAndRank) {
  int num_cases = 0;
  for (const failpoint::Point& point : failpoint::points()) {
    if (!is_ours(point.name)) continue;
    for (const Action action : {Action::kill, Action::eio, Action::enospc, Action::short_write}) {
      if (!(point.actions & (1 << static_cast<int>(action)))) continue;
      for (const int rank : {0, 1}) {
        if (rank == 1 && is_of_rank_0(point.name)) continue;
        check(std::string(point.name), rank, std::string(failpoint::name_of(action)));
        ++num_cases;
      }
    }
  }
  std::printf("G3: %d faults, one at a time\n", num_cases);
  EXPECT_GT(num_cases, 80);
}

// A second fault while the first is being recovered from.
TEST_F(FailpointMatrix, ASecondKillInRecovery) {
  RngStream rng(2, "second_kill");
  std::vector<std::string> points;
  for (const failpoint::Point& point : failpoint::points())
    if (is_ours(point.name) && point.name != "load.quarantine.rename")
      points.emplace_back(point.name);
  for (int i = 0; i < 20 * test::soak_factor(); ++i) {
    const test::TempDir folder;
    const std::filesystem::path save_dir = fresh_copy(folder);
    std::int64_t newest = 3;
    for (int fault = 0; fault < 3; ++fault) {
      const std::string spec =
          fmt::format("{}:nth={}=kill", points[rng.below(points.size())], 1 + rng.below(3));
      newest = std::max(newest, run(save_dir, spec).newest);
      ASSERT_EQ(broken_promise(save_dir, newest), "") << spec;
    }
  }
}

// Every fault, and then a kill at every point of the recovery: the long tier, in parts that can
// run side by side.
constexpr int kNumParts = 8;
class FailpointMatrixPart : public FailpointMatrix, public testing::WithParamInterface<int> {};

TEST_P(FailpointMatrixPart, EveryFaultWithASecondInRecovery) {
  if (test::soak_factor() == 1) GTEST_SKIP() << "WMTP_SOAK is not set";
  std::vector<std::string> firsts, seconds;
  for (const failpoint::Point& point : failpoint::points()) {
    if (!is_ours(point.name) || point.name == "load.quarantine.rename") continue;
    for (const Action action : {Action::kill, Action::eio, Action::enospc, Action::short_write})
      for (const int rank : {0, 1}) {
        if (!(point.actions & (1 << static_cast<int>(action)))) continue;
        if (rank == 1 && is_of_rank_0(point.name)) continue;
        firsts.push_back(
            fmt::format("{}:rank={}={}", point.name, rank, failpoint::name_of(action)));
        if (action == Action::kill) seconds.push_back(firsts.back());
      }
  }
  int num_pairs = 0;
  // The full tier takes all pairs, a shorter one every n-th.
  const std::size_t stride =
      test::soak_factor() >= 50 ? 1 : 50 / static_cast<std::size_t>(test::soak_factor());
  for (std::size_t i = 0; i < firsts.size() * seconds.size(); i += stride) {
    if (static_cast<int>(i / stride % kNumParts) != GetParam()) continue;
    const test::TempDir folder;
    const std::filesystem::path save_dir = fresh_copy(folder);
    std::int64_t newest = 3;
    for (const std::string& spec : {firsts[i / seconds.size()], seconds[i % seconds.size()]}) {
      newest = std::max(newest, run(save_dir, spec).newest);
      ASSERT_EQ(broken_promise(save_dir, newest), "") << spec << ", pair " << i;
    }
    const Result healthy = run(save_dir, "");
    ASSERT_EQ(healthy.codes, (std::array{0, 0})) << "pair " << i;
    ASSERT_GT(healthy.newest, newest) << "pair " << i;
    ++num_pairs;
  }
  std::printf("G3: %d pairs of faults (part %d of %d): nothing acknowledged was lost\n", num_pairs,
              GetParam() + 1, kNumParts);
}

INSTANTIATE_TEST_SUITE_P(LongTier, FailpointMatrixPart, testing::Range(0, kNumParts));

}  // namespace
}  // namespace wmtp::commit
#endif
