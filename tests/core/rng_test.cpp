#include "wmtp/core/rng.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace wmtp {
namespace {

// The published check values of the generator's use in data ordering.
TEST(Rng, KnownWords) {
  const RngStream stream(42, "order/0");
  EXPECT_EQ(stream.at(0), (PhiloxWords{3173510650u, 2178240060u, 761139729u, 3974625821u}));
}

TEST(Rng, KnownShuffle) {
  std::vector<int> items(10);
  std::iota(items.begin(), items.end(), 0);
  RngStream(42, "rows/all").shuffle(std::span<int>(items));
  EXPECT_EQ(items, (std::vector<int>{0, 7, 2, 1, 6, 5, 9, 8, 4, 3}));
}

TEST(Rng, NormalsHaveUnitMoments) {
  const RngStream stream(7, "init/x");
  double sum = 0, squares = 0;
  constexpr int kBlocks = 50000;
  for (int i = 0; i < kBlocks; ++i)
    for (double x : four_normals(stream.at(static_cast<std::uint64_t>(i))))
      sum += x, squares += x * x;
  EXPECT_NEAR(sum / (4 * kBlocks), 0.0, 0.01);
  EXPECT_NEAR(squares / (4 * kBlocks), 1.0, 0.02);
}

TEST(Rng, BelowStaysBelowAndCoversAll) {
  RngStream stream(1, "below");
  std::vector<int> seen(7);
  for (int i = 0; i < 1000; ++i) ++seen.at(stream.below(7));
  for (int count : seen) EXPECT_GT(count, 90);
}

}  // namespace
}  // namespace wmtp
