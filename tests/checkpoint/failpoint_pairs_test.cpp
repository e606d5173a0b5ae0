// A second fault while the first is being recovered from: two ranks that are processes, every fault
// of the matrix. A recovery loads, saves and removes, so it passes every point of the engine.
#include <gtest/gtest.h>

#include "checkpoint/two_ranks.h"
#include "support/soak.h"

#ifdef WMTP_FAILPOINTS
namespace wmtp::checkpoint {
namespace {

using life::Fault;
using life::Scene;

class FailpointMatrixPairs : public life::TwoRanks {
 protected:
  // One life with a fault in it, which must be reached; nothing acknowledged may be lost.
  void suffer(Scene& scene, const Fault& fault) {
    live(scene, fault);
    ASSERT_TRUE(was_hit(fault)) << fault.spec() << " was not reached";
    ASSERT_EQ(scene.broken_promise(), "") << fault.spec();
  }
};

std::vector<Fault> all_kills() {
  std::vector<Fault> kills = life::all_faults();
  std::erase_if(kills, [](const Fault& f) { return f.action != failpoint::Action::kill; });
  return kills;
}

// What a life of three saves surely passes so often: it loads once, and with two checkpoints left
// by the earlier faults, of three to keep, it removes two.
std::uint64_t sure_passages(const Fault& fault) {
  return fault.point.starts_with("save.") ? 3 : fault.point.starts_with("retain.") ? 2 : 1;
}

TEST_F(FailpointMatrixPairs, ASecondKillInRecovery) {
  RngStream rng(2, "second_kill");
  std::vector<Fault> kills = all_kills();
  const auto in_quarantine = std::find_if(
      kills.begin(), kills.end(), [](const Fault& f) { return f.point == life::kQuarantine; });
  const Fault quarantine = *in_quarantine;
  kills.erase(in_quarantine);
  for (int i = 0; i < 20 * test::soak_factor(); ++i) {
    Scene scene(origin());
    for (int turn = 0; turn < 3; ++turn) {
      Fault fault = kills[rng.below(kills.size())];
      fault.nth = 1 + static_cast<std::int64_t>(rng.below(sure_passages(fault)));
      // It costs a checkpoint: once in a series, first, second or last.
      if (i % 4 == 0 && turn == i / 4 % 3) fault = quarantine;
      ASSERT_NO_FATAL_FAILURE(suffer(scene, fault)) << "series " << i << ", turn " << turn;
    }
  }
}

// Every fault, and then a kill at every point of the recovery: the long tier, in parts that can
// run side by side.
constexpr int kNumParts = 8;
class FailpointMatrixPart : public FailpointMatrixPairs, public testing::WithParamInterface<int> {};

TEST_P(FailpointMatrixPart, EveryFaultWithASecondInRecovery) {
  if (test::soak_factor() == 1) GTEST_SKIP() << "WMTP_SOAK is not set";
  const std::vector<Fault> firsts = life::all_faults(), seconds = all_kills();
  int num_pairs = 0;
  // The full tier takes all pairs, a shorter one every n-th.
  const std::size_t stride =
      test::soak_factor() >= 50 ? 1 : 50 / static_cast<std::size_t>(test::soak_factor());
  for (std::size_t i = 0; i < firsts.size() * seconds.size(); i += stride) {
    if (static_cast<int>(i / stride % kNumParts) != GetParam()) continue;
    SCOPED_TRACE(fmt::format("pair {}", i));
    Scene scene(origin());
    ASSERT_NO_FATAL_FAILURE(suffer(scene, firsts[i / seconds.size()]));
    ASSERT_NO_FATAL_FAILURE(suffer(scene, seconds[i % seconds.size()]))
        << "after " << firsts[i / seconds.size()].spec();
    const std::int64_t before = scene.newest();
    ASSERT_EQ(live(scene, "").codes, (std::array{0, 0}));
    ASSERT_GT(scene.newest(), before);
    ++num_pairs;
  }
  EXPECT_GT(num_pairs, 0);
  std::printf("G3: %d pairs of faults (part %d of %d), both reached: nothing acknowledged lost\n",
              num_pairs, GetParam() + 1, kNumParts);
}

INSTANTIATE_TEST_SUITE_P(LongTier, FailpointMatrixPart, testing::Range(0, kNumParts));

}  // namespace
}  // namespace wmtp::checkpoint
#endif
