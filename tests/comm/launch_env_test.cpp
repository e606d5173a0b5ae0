#include "wmtp/comm/launch/launch_env.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace wmtp::comm {
namespace {

using Table = std::map<std::string, std::string>;

Table operator+(Table base, const Table& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

LaunchEnv of(const Table& table, int gpus = 0) {
  return discover(environment_of(table), {gpus});
}

const Table kTorchrun{{"RANK", "5"},
                      {"WORLD_SIZE", "8"},
                      {"LOCAL_RANK", "1"},
                      {"LOCAL_WORLD_SIZE", "4"},
                      {"GROUP_RANK", "1"},
                      {"GROUP_WORLD_SIZE", "2"},
                      {"MASTER_ADDR", "head"},
                      {"MASTER_PORT", "29500"},
                      {"TORCHELASTIC_RUN_ID", "job7"},
                      {"TORCHELASTIC_RESTART_COUNT", "2"},
                      {"TORCHELASTIC_MAX_RESTARTS", "3"},
                      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                      {"TORCHELASTIC_ERROR_FILE", "/tmp/e.json"},
                      {"OMP_NUM_THREADS", "1"}};
const Table kBatch{{"SLURM_JOB_ID", "77"},
                   {"SLURM_PROCID", "0"},
                   {"SLURM_NTASKS", "16"},
                   {"SLURM_NNODES", "2"},
                   {"SLURM_LOCALID", "0"},
                   {"SLURM_NODEID", "0"},
                   {"SLURM_JOB_NODELIST", "gpu[07-08]"}};
const Table kStep = kBatch + Table{{"SLURM_STEP_ID", "3"},
                                   {"SLURM_PROCID", "13"},
                                   {"SLURM_LOCALID", "1"},
                                   {"SLURM_NODEID", "1"},
                                   {"SLURM_STEP_NUM_TASKS", "16"},
                                   {"SLURM_STEP_NUM_NODES", "2"},
                                   {"SLURM_STEP_TASKS_PER_NODE", "12,4"},
                                   {"SLURM_STEP_NODELIST", "gpu[07-08]"}};
const Table kOpenMpi{{"OMPI_COMM_WORLD_RANK", "3"},
                     {"OMPI_COMM_WORLD_SIZE", "4"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Table kPod{{"RANK", "1"},
                 {"WORLD_SIZE", "2"},
                 {"MASTER_ADDR", "job-master-0"},
                 {"MASTER_PORT", "23456"},
                 {"PET_NODE_RANK", "1"},
                 {"PET_NNODES", "2"},
                 {"PET_NPROC_PER_NODE", "1"}};

struct Expected {
  const char* what;
  Table env;
  LaunchSource source;
  int rank, world, local_rank, local_world, node, nodes;
};

TEST(LaunchEnv, TableOfSources) {
  const std::vector<Expected> table{
      {"nothing", {}, LaunchSource::single, 0, 1, 0, 1, 0, 1},
      {"torchrun", kTorchrun, LaunchSource::torchrun, 5, 8, 1, 4, 1, 2},
      {"torchrun beats srun: SLURM_* count nodes", kTorchrun + kStep, LaunchSource::torchrun, 5, 8,
       1, 4, 1, 2},
      {"world 1 needs no address",
       {{"RANK", "0"}, {"WORLD_SIZE", "1"}},
       LaunchSource::torchrun,
       0,
       1,
       0,
       1,
       0,
       1},
      {"wmtp launch",
       {{"RANK", "2"},
        {"WORLD_SIZE", "3"},
        {"LOCAL_RANK", "2"},
        {"LOCAL_WORLD_SIZE", "3"},
        {"WMTP_RENDEZVOUS", "file:///tmp/x"}},
       LaunchSource::torchrun,
       2,
       3,
       2,
       3,
       0,
       1},
      {"Slurm step", kStep, LaunchSource::slurm, 13, 16, 1, 4, 1, 2},
      {"batch shell", kBatch, LaunchSource::single, 0, 1, 0, 1, 0, 1},
      {"interactive step", kStep + Table{{"SLURM_STEP_ID", "4294967290"}}, LaunchSource::single, 0,
       1, 0, 1, 0, 1},
      {"batch shell that exported an address",
       kBatch + Table{{"WORLD_SIZE", "16"}, {"MASTER_ADDR", "a"}}, LaunchSource::single, 0, 1, 0, 1,
       0, 1},
      {"Open MPI", kOpenMpi, LaunchSource::openmpi, 3, 4, 3, 4, 0, 1},
      {"PMI",
       {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}},
       LaunchSource::pmi,
       1,
       2,
       1,
       2,
       0,
       1},
      {"mpirun inside Slurm: the daemon's SLURM_*",
       kOpenMpi + kStep + Table{{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}},
       LaunchSource::openmpi, 3, 4, 3, 4, 0, 1},
      {"srun --mpi=pmi2: PMI agrees with the step",
       kStep + Table{{"PMI_RANK", "13"}, {"PMI_SIZE", "16"}}, LaunchSource::slurm, 13, 16, 1, 4, 1,
       2},
      {"PyTorchJob pod", kPod, LaunchSource::torchrun, 1, 2, 0, 1, 1, 2},
  };
  for (const Expected& e : table) {
    SCOPED_TRACE(e.what);
    const LaunchEnv got = of(e.env);
    EXPECT_EQ(name_of(got.source), name_of(e.source));
    EXPECT_EQ(
        (std::vector{got.rank, got.world, got.local_rank, got.local_world, got.node, got.nodes}),
        (std::vector{e.rank, e.world, e.local_rank, e.local_world, e.node, e.nodes}));
  }
}

TEST(LaunchEnv, TorchrunDetails) {
  const LaunchEnv got = of(kTorchrun);
  EXPECT_TRUE(got.agent_store);
  EXPECT_EQ(got.store_host, "head");
  EXPECT_EQ(got.store_ports, std::vector{29500});
  EXPECT_EQ(got.run_id, "job7");
  EXPECT_EQ(got.restart_count, 2);
  EXPECT_EQ(got.max_restarts, 3);
  EXPECT_EQ(got.error_file, "/tmp/e.json");
  EXPECT_FALSE(of(kTorchrun + Table{{"TORCHELASTIC_USE_AGENT_STORE", "False"}}).agent_store);
}

TEST(LaunchEnv, TheJobIsKnownByTheIdThatEveryStartHas) {
  EXPECT_EQ(of({}).job, "");
  EXPECT_EQ(of(kTorchrun).job, "job7");
  EXPECT_EQ(of(kTorchrun + Table{{"TORCHELASTIC_RUN_ID", "none"}}).job, "") << "torchrun's word";
  EXPECT_EQ(of(kTorchrun + Table{{"TORCHELASTIC_RUN_ID", "none"}, {"PET_RDZV_ID", "r"}}).job, "r");
  const LaunchEnv requeued =
      of(kTorchrun + Table{{"SLURM_JOB_ID", "77"}, {"SLURM_RESTART_COUNT", "4"}});
  EXPECT_EQ(requeued.job, "77") << "a new --rdzv-id may be drawn at each start of the script";
  EXPECT_EQ(requeued.job_restarts, 4);
  EXPECT_EQ(requeued.restart_count, 2);
}

TEST(LaunchEnv, SlurmFindsItsMeetingPlace) {
  LaunchEnv got = of(kStep);
  EXPECT_EQ(got.store_host, "gpu07");
  EXPECT_EQ(got.run_id, "77.3");
  ASSERT_EQ(got.store_ports.size(), 8u);
  for (const int port : got.store_ports) EXPECT_TRUE(port >= 10'000 && port < 30'000) << port;
  EXPECT_EQ(got.store_ports, of(kStep + Table{{"SLURM_PROCID", "0"}}).store_ports)
      << "the same on all ranks";
  EXPECT_NE(got.store_ports, of(kStep + Table{{"SLURM_JOB_ID", "78"}}).store_ports);
  EXPECT_EQ(of(kStep + Table{{"SLURM_STEP_RESV_PORTS", "12001-12003"}}).store_ports,
            std::vector{12001});
  EXPECT_EQ(of(kStep + Table{{"MASTER_PORT", "4000"}, {"MASTER_ADDR", "here"}}).store_ports,
            std::vector{4000});
  EXPECT_EQ(of(kStep + Table{{"MASTER_ADDR", "here"}}).store_host, "here");
}

TEST(LaunchEnv, Notices) {
  EXPECT_THAT(of(kBatch).notices,
              testing::ElementsAre(testing::HasSubstr("srun was probably meant")));
  EXPECT_THAT(
      of(kStep + Table{{"WORLD_SIZE", "4"}}).notices,
      testing::ElementsAre(testing::HasSubstr("WORLD_SIZE=4 is ignored: the Slurm step has 16")));
  EXPECT_TRUE(of(kTorchrun).notices.empty());
}

TEST(LaunchEnv, ContradictionsAreNamed) {
  const auto bad = [](const Table& env, const char* part, int gpus = 0) {
    EXPECT_WMTP_ERROR(of(env, gpus), ErrorKind::config, part);
  };
  bad({{"RANK", "0"}}, "RANK is set, WORLD_SIZE is not; seen: RANK=0");
  bad({{"RANK", "0"}, {"WORLD_SIZE", "2"}}, "no address to meet at");
  bad({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}},
      "WMTP_RENDEZVOUS=tcp://HOST:PORT");
  bad(kTorchrun + Table{{"RANK", "8"}}, "rank 8 in a world of 8");
  bad(kTorchrun + Table{{"LOCAL_RANK", "4"}}, "local rank 4 of 4");
  bad(kTorchrun + Table{{"RANK", "-1"}}, "RANK='-1' is not a number");
  bad(kTorchrun + Table{{"RANK", "5x"}}, "RANK='5x' is not a number");
  bad(kTorchrun + Table{{"WORLD_SIZE", "99999999999"}}, "is not a number");
  bad(kTorchrun + Table{{"MASTER_PORT", "70000"}}, "port 70000 does not exist");
  bad(kTorchrun + Table{{"WMTP_RUN_TOKEN", "secret"}}, "WMTP_RUN_TOKEN has 6 characters");
  bad({{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "a world of 0 ranks");
  bad({{"OMPI_COMM_WORLD_RANK", "0"}}, "OMPI_COMM_WORLD_SIZE is not");
  bad(kOpenMpi + Table{{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}},
      "MPI ranks on several hosts, but no address");
  bad(kPod + Table{{"PET_NPROC_PER_NODE", "8"}}, "RANK counts pods");
  bad(kPod, "2 GPUs are meant", 2);
  bad(kStep + Table{{"SLURM_NODEID", "2"}}, "SLURM_NODEID 2 is not among the 2 nodes");
  bad(kStep + Table{{"SLURM_STEP_NODELIST", "gpu[8-7]"}}, "runs backwards");
}

TEST(LaunchEnv, TokenIsNeverShown) {
  const LaunchEnv got = of(kTorchrun + Table{{"WMTP_RUN_TOKEN", "0123456789abcdef-secret"}});
  EXPECT_EQ(got.token, "0123456789abcdef-secret");
  for (const std::string& line : describe(got))
    EXPECT_THAT(line, testing::Not(testing::HasSubstr("secret")));
  EXPECT_THAT(describe(got), testing::Contains("  RANK=5"));
  EXPECT_THAT(describe(got),
              testing::Contains(testing::HasSubstr("head:29500, served by torchrun's agent")));
}

TEST(LaunchEnv, WhatNcclIsToldOtherwiseIsToldTheUser) {
  ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", 1);
  ::setenv("TORCH_NCCL_BLOCKING_WAIT", "1", 1);
  EXPECT_THAT(prepare_nccl_environment(),
              testing::ElementsAre(testing::StartsWith("TORCH_NCCL_ASYNC_ERROR_HANDLING=1 is over"),
                                   testing::StartsWith("TORCH_NCCL_BLOCKING_WAIT=1 is dropped")));
  EXPECT_STREQ(::getenv("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "2");
  EXPECT_EQ(::getenv("TORCH_NCCL_BLOCKING_WAIT"), nullptr);
  EXPECT_THAT(prepare_nccl_environment(), testing::IsEmpty()) << "as it should be, or not set";
}

TEST(LaunchEnv, Threads) {
  const LaunchEnv agent = of(kTorchrun);
  EXPECT_EQ(choose_threads(agent, 0, 32), 8)
      << "torchrun's exported 1 is a trap: 32 cores / 4 local ranks";
  EXPECT_EQ(choose_threads(agent, 3, 32), 3);
  EXPECT_EQ(choose_threads(of(kTorchrun + Table{{"OMP_NUM_THREADS", "2"}}), 0, 32), 2);
  EXPECT_EQ(choose_threads(of({{"OMP_NUM_THREADS", "1"}}), 0, 32), 1) << "asked for by the user";
  EXPECT_EQ(choose_threads(of({}), 0, 32), 32);
  EXPECT_EQ(choose_threads(agent, 0, 2), 1);
  EXPECT_GE(affinity_cores(), 1);
}

}  // namespace
}  // namespace wmtp::comm
