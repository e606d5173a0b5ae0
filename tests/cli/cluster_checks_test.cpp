// What `wmtp doctor --cluster` makes of what it measured.
#include "wmtp/cli/doctor/cluster_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "support/expect_error.h"

namespace wmtp::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

RankReport report_of(int rank) {
  RankReport report;
  report.rank = rank;
  report.host = rank < 2 ? "left" : "right";
  report.versions = {{"wmtp build", "abc"}, {"NCCL", "2.27.5"}};
  report.machine = {{"kernel", "Linux 6.1"}, {"driver for CUDA", "13.0"}};
  if (rank % 2 == 0) report.disk = DiskSpeed{2, 1000};
  report.gpu = tracking::GpuHealth{50, 0, {"power cap"}, false, ""};
  return report;
}

// Four ranks on two hosts, healthy: 10 GB/s within a host, 1 GB/s across.
ClusterFindings healthy() {
  ClusterFindings found{"nccl", "tcp://left", {}, {}, {}, {}};
  for (int rank = 0; rank < 4; ++rank) found.ranks.push_back(report_of(rank));
  for (const char* name : {"all_reduce", "all_gather"})
    found.collectives.insert(found.collectives.end(), {{name, 8, 0.05}, {name, 64 << 20, 20}});
  for (int first = 0; first < 4; ++first)
    for (int second = first + 1; second < 4; ++second)
      found.pairs.push_back({first, second, 0.02, first / 2 == second / 2 ? 10.0 : 1.0});
  for (int rank = 1; rank < 4; ++rank) found.clocks.push_back({rank, 0.001 * rank, 0.0001});
  return found;
}

Check find_check(const ClusterFindings& found, const std::string& name) {
  for (const Check& check : check_cluster(found))
    if (check.name == name) return check;
  ADD_FAILURE() << "no check " << name;
  return {};
}

void expect_finding(const ClusterFindings& found, const std::string& name, Health health,
                    const std::string& part) {
  for (const Check& check : check_cluster(found)) {
    EXPECT_EQ(check.health, check.name == name ? health : Health::ok) << check.name;
    if (check.name != name) continue;
    EXPECT_THAT(check.fact, HasSubstr(part));
    EXPECT_NE(check.fix, "");
  }
}

TEST(ClusterChecks, AHealthyClusterIsOk) {
  for (const Check& check : check_cluster(healthy())) {
    EXPECT_EQ(check.health, Health::ok) << check.name << ": " << check.fact;
    EXPECT_EQ(check.fix, "") << check.name;
  }
  EXPECT_EQ(find_check(healthy(), "cluster").fact, "4 ranks on 2 hosts over nccl, tcp://left");
  EXPECT_THAT(find_check(healthy(), "slowest pair").fact,
              StartsWith("ranks 0 (left) and 2 (right)"));
  EXPECT_EQ(find_check(healthy(), "all_reduce").fact, "0.050 ms for 8 B, 3.36 GB/s with 64 MiB");
}

TEST(ClusterChecks, AnOddVersionFailsAndAnOddDriverWarns) {
  ClusterFindings found = healthy();
  found.ranks[3].versions["NCCL"] = "2.26.2";
  expect_finding(found, "versions", Health::fail, "rank 3: NCCL 2.26.2");
  found = healthy();
  found.ranks[1].machine["driver for CUDA"] = "12.8";
  expect_finding(found, "machines", Health::warn, "rank 1: driver for CUDA 12.8");
}

TEST(ClusterChecks, APairIsHeldToItsOwnKind) {
  ClusterFindings found = healthy();
  for (PairSpeed& pair : found.pairs)
    if (pair.first == 1 && pair.second == 3) pair.gb_per_s = 0.4;
  expect_finding(found, "slowest pair", Health::warn, "ranks 1 (left) and 3 (right): 0.40 GB/s");
}

TEST(ClusterChecks, ASlowNetworkAClockAndADiskAreTold) {
  ClusterFindings found = healthy();
  found.collectives[1].ms = 4000;
  expect_finding(found, "all_reduce", Health::warn, "0.02 GB/s");
  found = healthy();
  found.clocks[1] = {2, -0.5, 0.001};
  expect_finding(found, "clocks", Health::warn, "rank 2 is furthest from rank 0: -500.000 ms");
  found.clocks[1] = {2, -0.5, 0.45};  // so far away that it may be nothing
  EXPECT_EQ(find_check(found, "clocks").health, Health::ok);
  found = healthy();
  found.ranks[2].disk = DiskSpeed{50, 20};
  expect_finding(found, "disks", Health::warn, "right, 20 MB/s");
}

TEST(ClusterChecks, ABrokenGpuFailsAndAHotOneWarns) {
  ClusterFindings found = healthy();
  found.ranks[2].gpu->temperature_c = 91;
  expect_finding(found, "GPU health", Health::warn, "rank 2 (right): 91 degrees");
  found.ranks[1].gpu->uncorrected_ecc = 3;
  expect_finding(found, "GPU health", Health::fail, "rank 1 (left): 3 uncorrected memory errors");
  found = healthy();
  found.ranks[0].gpu->slowdowns.push_back("thermal");
  expect_finding(found, "GPU health", Health::warn, "rank 0 (left): throttled, thermal");
}

TEST(ClusterChecks, AReportComesBackWholeAndEscaped) {
  RankReport report = report_of(2);
  EXPECT_EQ(to_json(rank_report_from_json(Json::parse(to_json(report).dump()))), to_json(report));
  report.host = "a\x1b[2J";
  const Json json = Json::parse(to_json(report).dump());
  EXPECT_EQ(rank_report_from_json(json).host.find('\x1b'), std::string::npos);
  EXPECT_WMTP_ERROR(rank_report_from_json(Json::array()), ErrorKind::data, "cannot be read");
}

TEST(ClusterMeasure, EachRankMeetsEachOtherOnce) {
  for (int world = 1; world <= 17; ++world) {
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < num_rounds(world); ++round)
      for (int rank = 0; rank < world; ++rank) {
        const int other = partner(rank, round, world);
        if (other < 0) continue;
        ASSERT_NE(other, rank);
        ASSERT_EQ(partner(other, round, world), rank);
        if (rank < other) {
          EXPECT_TRUE(met.emplace(rank, other).second);
        }
      }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(world * (world - 1) / 2)) << world;
  }
}

}  // namespace
}  // namespace wmtp::cli
