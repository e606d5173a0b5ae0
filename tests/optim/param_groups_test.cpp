#include "wmtp/optim/param_groups.h"

#include <gtest/gtest.h>

namespace wmtp::optim {
namespace {

TEST(GroupRanges, NeighboursOfOneGroupAreOneRange) {
  const layout::BucketPlan plan(
      {{"a", {4, 8}}, {"b", {8, 4}}, {"norm.weight", {8}}, {"c.lora_A.weight", {2, 8}}}, 1);
  ParamGroups groups{.groups = {{"policy"}, {"lora"}}, .group_of = nullptr, .decay_vectors = true};
  EXPECT_EQ(group_ranges(plan, 0, groups).size(), 1u);
  groups.decay_vectors = false;
  EXPECT_EQ(group_ranges(plan, 0, groups).size(), 3u);
  groups.group_of = [](const layout::ParamSpec& p) {
    return p.name.find("lora_") == std::string::npos ? 0u : 1u;
  };
  const auto ranges = group_ranges(plan, 0, groups);
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].in_shard, (layout::Range{0, 64}));
  EXPECT_FALSE(ranges[1].decays);
  EXPECT_EQ(ranges[2].group, 1u);
}

TEST(GroupRanges, FollowTheShard) {
  const layout::BucketPlan plan({{"a", {100, 3}}, {"v", {84}}}, 3);
  ParamGroups groups{.groups = {{"policy"}}, .group_of = nullptr, .decay_vectors = false};
  std::int64_t sum = 0;
  for (int rank = 0; rank < 3; ++rank)
    for (const GroupRange& range : group_ranges(plan, rank, groups)) sum += range.in_shard.size();
  EXPECT_EQ(sum, 384);
}

}  // namespace
}  // namespace wmtp::optim
