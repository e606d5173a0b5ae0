// What threads of a block do together, in every order that the emulator can run them in.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "emulated_gpu/kernels/runtime/order.h"
#include "emulated_gpu/kernels/tiny_kernels.h"

namespace wmtp::emulated::testing {
namespace {

class EmulatedThreads : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_order(GetParam()); }
  void TearDown() override { set_order("forward"); }
};

INSTANTIATE_TEST_SUITE_P(Orders, EmulatedThreads,
                         ::testing::Values("forward", "reversed", "1", "18446744073709551615"),
                         [](const auto& order) { return "order_" + order.param; });

TEST_P(EmulatedThreads, MeetAtABarrier) {
  for (const int threads : {1, 31, 32, 33, 1000, 1024}) {
    std::vector<int> out(threads), wanted(threads);
    turn_around(out.data(), threads);
    std::iota(wanted.rbegin(), wanted.rend(), 0);
    EXPECT_EQ(out, wanted) << threads;
  }
}

TEST_P(EmulatedThreads, AReturnedThreadHoldsNoBarrierUp) {
  for (const int threads : {2, 64, 1023}) {
    std::vector<int> out(threads, -1);
    sums_of_the_living(out.data(), threads);
    for (int i = 0; i < threads; ++i) EXPECT_EQ(out[i], i % 2 == 1 ? -1 : (threads + 1) / 2) << i;
  }
}

std::vector<double> shuffled(Shuffle kind, int argument, int width) {
  std::vector<double> out(32);
  shuffle(kind, argument, width, out.data());
  return out;
}

TEST_P(EmulatedThreads, ShuffleInsideOfTheirSegments) {
  const auto expect = [](const std::vector<double>& got, auto wanted) {
    for (int lane = 0; lane < 32; ++lane) EXPECT_EQ(got[lane], wanted(lane)) << lane;
  };
  expect(shuffled(Shuffle::from, 5, 32), [](int) { return 5; });
  expect(shuffled(Shuffle::from, 37, 32), [](int) { return 5; });
  expect(shuffled(Shuffle::from, 6, 4), [](int lane) { return lane / 4 * 4 + 2; });
  expect(shuffled(Shuffle::up, 3, 32), [](int lane) { return lane < 3 ? lane : lane - 3; });
  expect(shuffled(Shuffle::up, 3, 8), [](int lane) { return lane % 8 < 3 ? lane : lane - 3; });
  expect(shuffled(Shuffle::down, 5, 32), [](int lane) { return lane > 26 ? lane : lane + 5; });
  expect(shuffled(Shuffle::down, 1, 2), [](int lane) { return lane / 2 * 2 + 1; });
  expect(shuffled(Shuffle::exclusive_or, 16, 32), [](int lane) { return (lane + 16) % 32; });
  expect(shuffled(Shuffle::exclusive_or, 1, 2), [](int lane) { return lane ^ 1; });
  // Lanes of lower segments can be read, of higher ones not.
  expect(shuffled(Shuffle::exclusive_or, 8, 8),
         [](int lane) { return lane / 8 % 2 == 1 ? lane - 8 : lane; });
}

TEST_P(EmulatedThreads, Vote) {
  for (const unsigned predicates : {0u, 0xffffffffu, 0x80000001u, 0x7fffffffu}) {
    std::vector<Votes> out(32);
    vote(predicates, out.data());
    for (const Votes& votes : out) {
      EXPECT_EQ(votes.ballot, predicates);
      EXPECT_EQ(votes.any != 0, predicates != 0);
      EXPECT_EQ(votes.all != 0, predicates == 0xffffffffu);
    }
  }
}

TEST_P(EmulatedThreads, HalvesOfAWarpGoTheirOwnWays) {
  std::vector<int> out(32);
  shuffle_in_halves(out.data());
  for (int lane = 0; lane < 32; ++lane)
    EXPECT_EQ(out[lane], lane < 16 ? (lane + 16) ^ 2 : (lane - 16) ^ 1) << lane;
}

TEST_P(EmulatedThreads, ManySumsOverManyBlocks) {
  constexpr int kBlocks = 20, kRounds = 8;
  std::vector<double> out(kBlocks);
  many_block_sums(out.data(), kBlocks, kRounds);
  // A round adds the sum of the last one to 0 + 1 + ... + 1023; all of it is exact in fp64.
  EXPECT_EQ(out, std::vector<double>(kBlocks, kRounds * 1023.0 * 512));
}

TEST_P(EmulatedThreads, KnowTheirPlaces) {
  constexpr int kSize = 3 * 2 * 4 * 5 * 7 * 3;
  std::vector<int> out(kSize, -1), wanted(kSize);
  std::iota(wanted.begin(), wanted.end(), 0);
  place_of(out.data(), {3, 2, 4}, {5, 7, 3});
  EXPECT_EQ(out, wanted);
}

TEST_P(EmulatedThreads, AddAtomically) {
  int sum = 0;
  unsigned largest = 0;
  unsigned long long long_sum = 0;
  float float_sum = 0;
  double double_sum = 0;
  atomics(1000, &sum, &largest, &long_sum, &float_sum, &double_sum);
  EXPECT_EQ(sum, 1000);
  EXPECT_EQ(largest, 999u);
  EXPECT_EQ(long_sum, 1000ull << 33);
  EXPECT_EQ(float_sum, 500.0f);
  EXPECT_EQ(double_sum, 250.0);
}

TEST_P(EmulatedThreads, FindSharedMemoryUnwrittenInEveryBlock) {
  std::vector<int> out(3);
  count_unwritten(out.data(), 3);
  EXPECT_EQ(out, std::vector<int>(3, 4 + 16 + 1));
}

TEST_P(EmulatedThreads, StartHoweverTheLaunchIsWritten) {
  int out = 0;
  configured_at_length(&out);
  EXPECT_EQ(out, 32 * 1 + 32 * (1 + 2 * 3) + 2 * 1 + 2 * 100 + 2000);
}

TEST(EmulatedLaunch, ThreadsOfTheHostWaitForEachOther) {
  const auto launch_often = [] {
    for (int i = 0; i < 100; ++i) {
      std::vector<int> out(256), wanted(256);
      turn_around(out.data(), 256);
      std::iota(wanted.rbegin(), wanted.rend(), 0);
      EXPECT_EQ(out, wanted);
      EXPECT_EQ(launch_nothing({0}, {1}, 0), 9) << "each has its own last error";
    }
  };
  std::thread other(launch_often);
  launch_often();
  other.join();
}

TEST(EmulatedOrder, AnotherOneShowsAMissingBarrier) {
  constexpr int kThreads = 64;
  const auto wrong = [](const std::string& order) {
    set_order(order);
    std::vector<float> out(kThreads);
    take_from_left(out.data(), kThreads);
    set_order("forward");
    int count = 0;
    for (int i = 0; i < kThreads; ++i) count += out[i] != static_cast<float>(i - 1);
    return count;
  };
  EXPECT_EQ(wrong("forward"), 0);
  EXPECT_EQ(wrong("reversed"), kThreads - 1);
  EXPECT_GT(wrong("7"), 0);
}

TEST(EmulatedOrderDeathTest, AWordThatIsNoneIsRefused) {
  EXPECT_DEATH(set_order("backward"), "neither forward, reversed nor a seed");
  EXPECT_DEATH(set_order("18446744073709551616"), "neither forward, reversed nor a seed");
}

}  // namespace
}  // namespace wmtp::emulated::testing
