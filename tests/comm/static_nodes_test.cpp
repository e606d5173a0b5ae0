#include "wmtp/comm/launch/static_nodes.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace wmtp::comm {
namespace {

using Table = std::map<std::string, std::string>;

const Table kSlurmStep{{"SLURM_JOB_ID", "77"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_PROCID", "1"},
                       {"SLURM_NODEID", "1"},
                       {"SLURM_STEP_NUM_NODES", "2"},
                       {"SLURM_STEP_NUM_TASKS", "2"},
                       {"SLURM_STEP_NODELIST", "n[3-4]"}};
const Table kPod{{"PET_NNODES", "3"},      {"PET_NODE_RANK", "2"}, {"MASTER_ADDR", "job-master-0"},
                 {"MASTER_PORT", "23456"}, {"RANK", "2"},          {"WORLD_SIZE", "3"}};

std::string found(const NodeFlags& flags, const Table& table) {
  const StaticNodes nodes = find_nodes(flags, environment_of(table));
  return std::to_string(nodes.node) + " of " + std::to_string(nodes.num_nodes) +
         (nodes.num_nodes > 1 ? " at " + rendezvous_of(nodes) : "");
}

TEST(StaticNodes, OneNodeUnlessSomebodySaysMore) {
  EXPECT_EQ(found({}, {}), "0 of 1");
  EXPECT_EQ(found({.num_nodes = 1, .node = 0, .port = std::nullopt, .address = ""}, {}), "0 of 1");
  Table batch = kSlurmStep;
  batch.erase("SLURM_STEP_ID");
  EXPECT_EQ(found({}, batch), "0 of 1") << "the batch shell is no step";
  EXPECT_EQ(found({}, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}, {"RANK", "1"}}), "0 of 1");
}

TEST(StaticNodes, FlagsThenPetThenSlurm) {
  const NodeFlags flags{.num_nodes = 4, .node = 3, .port = 29500, .address = "head"};
  EXPECT_EQ(found(flags, kPod), "3 of 4 at tcp://head:29500");
  EXPECT_EQ(found({}, kPod), "2 of 3 at tcp://job-master-0:23456");
  Table pod = kPod;
  pod["PET_MASTER_ADDR"] = "fd00::1";
  pod["PET_MASTER_PORT"] = "23457";
  EXPECT_EQ(found({}, pod), "2 of 3 at tcp://[fd00::1]:23457");
  EXPECT_EQ(found({.num_nodes = {}, .node = {}, .port = 1234, .address = ""}, kSlurmStep),
            "1 of 2 at tcp://n3:1234");
  const int port = find_nodes({}, environment_of(kSlurmStep)).port;
  EXPECT_GE(port, 10'000);
  EXPECT_LT(port, 30'000);
}

TEST(StaticNodes, WhatIsMissingOrContradictoryIsNamed) {
  const auto refuses = [](const NodeFlags& flags, const Table& table, const char* said) {
    EXPECT_WMTP_ERROR(find_nodes(flags, environment_of(table)), ErrorKind::config, said);
  };
  NodeFlags two;
  two.num_nodes = 2;
  refuses(two, {}, "--node-rank");
  two.node = 1;
  refuses(two, {}, "--master-addr");
  two.address = "head";
  refuses(two, {}, "--master-port");
  two.port = 29500;
  EXPECT_EQ(found(two, {}), "1 of 2 at tcp://head:29500");
  two.node = 2;
  refuses(two, {}, "node 2 of 2");
  NodeFlags alone;
  alone.address = "head";
  refuses(alone, {}, "--master-addr is for several nodes");
  refuses({}, {{"PET_NNODES", "1:4"}}, "PET_NNODES=1:4 is a range");
  Table many = kSlurmStep;
  many["SLURM_STEP_NUM_TASKS"] = "16";
  refuses({}, many, "16 launchers on 2 nodes");
}

}  // namespace
}  // namespace wmtp::comm
