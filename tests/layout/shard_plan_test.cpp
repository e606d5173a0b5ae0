#include "wmtp/layout/shard_plan.h"

#include <gtest/gtest.h>

#include "wmtp/core/rng.h"

namespace wmtp::layout {
namespace {

const ParamSpec kMatrix{"matrix", {10, 6}};
const ParamSpec kVector{"vector", {7}};

// The worked example of the checkpoint format: 67 elements over 3 ranks, 23 each (no rounding
// there).
TEST(RowBoxes, WorkedExample) {
  auto boxes = row_boxes(kMatrix, {0, 23});
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_EQ(boxes[0].kind, 1);
  EXPECT_EQ(boxes[0].shape, (std::vector<std::int64_t>{3, 6}));
  EXPECT_EQ(boxes[1].kind, 3);
  EXPECT_EQ(boxes[1].offsets, (std::vector<std::int64_t>{3, 0}));
  EXPECT_EQ(boxes[1].shape, (std::vector<std::int64_t>{1, 5}));
  boxes = row_boxes(kMatrix, {23, 46});
  ASSERT_EQ(boxes.size(), 3u);
  EXPECT_EQ(boxes[0].kind, 2);
  EXPECT_EQ(boxes[0].offsets, (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(boxes[1].offsets, (std::vector<std::int64_t>{4, 0}));
  EXPECT_EQ(boxes[1].shape, (std::vector<std::int64_t>{3, 6}));
  EXPECT_EQ(boxes[2].offsets, (std::vector<std::int64_t>{7, 0}));
  EXPECT_EQ(boxes[2].shape, (std::vector<std::int64_t>{1, 4}));
  boxes = row_boxes(kMatrix, {46, 60});
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_EQ(boxes[0].shape, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(boxes[1].shape, (std::vector<std::int64_t>{2, 6}));
}

TEST(RowBoxes, WithinOneRow) {
  const auto boxes = row_boxes(kMatrix, {7, 10});
  ASSERT_EQ(boxes.size(), 1u);
  EXPECT_EQ(boxes[0].kind, 2);
  EXPECT_EQ(boxes[0].offsets, (std::vector<std::int64_t>{1, 1}));
}

// For random parameters and every world size: the boxes of all ranks cover every element once, no
// kind twice.
TEST(ShardPlan, CoversEverythingOnce) {
  RngStream rng(3, "shard_plan_test");
  for (int round = 0; round < 200; ++round) {
    std::vector<ParamSpec> params;
    for (std::uint64_t i = 0; i <= rng.below(4); ++i) {
      std::vector<std::int64_t> shape;
      for (std::uint64_t axis = 0; axis <= rng.below(2); ++axis)
        shape.push_back(static_cast<std::int64_t>(1 + rng.below(40)));
      params.push_back({"p" + std::to_string(i), shape});
    }
    const int world = static_cast<int>(1 + rng.below(9));
    const BucketPlan plan(params, world);
    EXPECT_EQ(plan.shard_numel() % BucketPlan::kAlignment, 0);
    EXPECT_GE(plan.padded_numel(), plan.numel());
    std::vector<std::vector<int>> seen;
    for (const ParamSpec& param : params)
      seen.emplace_back(static_cast<std::size_t>(param.numel()));
    for (int rank = 0; rank < world; ++rank)
      for (const Piece& piece : plan.pieces(rank)) {
        EXPECT_LE(piece.in_shard + piece.in_param.size(), plan.shard_numel());
        int last_kind = 0;
        const auto boxes = row_boxes(params[piece.param], piece.in_param);
        EXPECT_LE(boxes.size(), 3u);
        for (const RowBox& box : boxes) {
          EXPECT_NE(box.kind, last_kind);
          last_kind = box.kind;
          for (std::int64_t i = box.in_param.begin; i < box.in_param.end; ++i)
            ++seen[piece.param][static_cast<std::size_t>(i)];
        }
      }
    for (const auto& counts : seen)
      for (int count : counts) ASSERT_EQ(count, 1);
  }
}

TEST(ShardPlan, FrozenParametersLieApart) {
  const std::vector<UnitSpec> units{{"u", {{"w", {4, 4}, false}, {"a", {2, 4}, true}}}};
  const auto plan = shard_plan(units, 2);
  EXPECT_EQ(plan[0].frozen.numel(), 16);
  EXPECT_EQ(plan[0].trained.numel(), 8);
}

}  // namespace
}  // namespace wmtp::layout
