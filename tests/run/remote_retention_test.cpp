#include "wmtp/run/uploads/remote_retention.h"

#include <gtest/gtest.h>

namespace wmtp::run {
namespace {

using Names = std::vector<std::string>;

std::vector<RemoteCheckpoint> remote_ones(const std::vector<std::int64_t>& steps) {
  std::vector<RemoteCheckpoint> found;
  for (const std::int64_t step : steps) found.push_back({std::to_string(step), step});
  return found;
}

TEST(RemoteRetention, TheNewestStayByTheirSteps) {
  EXPECT_EQ(plan_remote_retention(remote_ones({100, 20, 9, 3}), {.keep = 2}), (Names{"3", "9"}));
  EXPECT_EQ(plan_remote_retention(remote_ones({3, 9}), {.keep = 2}), Names{});
  EXPECT_EQ(plan_remote_retention(remote_ones({3, 9}), {.keep = 1}), Names{"3"});
}

TEST(RemoteRetention, WhatPointersNameOrIsOnItsWayStays) {
  EXPECT_EQ(plan_remote_retention(remote_ones({1, 2, 3, 4}), {.keep = 1, .kept = {"2"}}),
            (Names{"1", "3"}));
}

TEST(RemoteRetention, WithoutAManifestItCountsForNothing) {
  std::vector<RemoteCheckpoint> found = remote_ones({1, 2, 3, 4});
  found[2].has_manifest = found[3].has_manifest = false;
  EXPECT_EQ(plan_remote_retention(found, {.keep = 2}), (Names{"3", "4"}));
  EXPECT_EQ(plan_remote_retention(found, {.keep = 2, .kept = {"4"}}), Names{"3"});
}

TEST(RemoteRetention, LaterOnesOfALineThatWasLeftStay) {
  EXPECT_EQ(plan_remote_retention(remote_ones({1, 2, 3, 9}), {.keep = 1, .newest_step = 3}),
            (Names{"1", "2"}));
}

}  // namespace
}  // namespace wmtp::run
