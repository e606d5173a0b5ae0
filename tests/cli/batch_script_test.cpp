#include "wmtp/cli/launcher/batch_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace wmtp::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

BatchRequest request() {
  return {.program = "/opt/my wmtp/bin/wmtp",
          .command = {"train", "--config", "run.yaml", "--override", "experiment.name=it's $HOME"},
          .num_nodes = 4,
          .ranks_per_node = 8,
          .requeues = true,
          .environment = {"NCCL_DEBUG=INFO", "A=b c"}};
}

TEST(BatchScript, IsFilledIn) {
  const std::string script = batch_script(request());
  for (const char* part :
       {"#!/bin/bash\n", "\n#SBATCH --nodes=4\n", "\n#SBATCH --ntasks-per-node=8\n",
        "\n#SBATCH --gpus-per-node=8\n", "\n#SBATCH --requeue\n",
        "\nWMTP=${WMTP:-'/opt/my wmtp/bin/wmtp'}\n", "\nexport NCCL_DEBUG=INFO\nexport A='b c'\n",
        "TRAIN=(\"$WMTP\" train --config run.yaml --override 'experiment.name=it'\\''s $HOME' "
        "--resume auto \"$@\")\n"})
    EXPECT_THAT(script, HasSubstr(part));
  for (const char* gone : {"CONFIG", "RUN_DIR", "sbatch requeue.sbatch"})
    EXPECT_THAT(script, Not(HasSubstr(gone)));
}

TEST(BatchScript, TheFormFollowsFromNodesAndRestarts) {
  BatchRequest once = request();
  once.requeues = false;
  EXPECT_THAT(batch_script(once), Not(HasSubstr("requeue")));
  EXPECT_THAT(batch_script(once), HasSubstr("NCCL_SOCKET_IFNAME"));
  once.num_nodes = 1;
  EXPECT_THAT(batch_script(once), Not(HasSubstr("NCCL_SOCKET_IFNAME")));
}

TEST(BatchScript, WhatTheCommandSaysIsNotSaidAgain) {
  BatchRequest asked = request();
  asked.command = {"train", "--config", "a.yaml", "--resume=never", "--device", "cpu"};
  const std::string script = batch_script(asked);
  EXPECT_THAT(script, Not(HasSubstr("--resume auto")));
  EXPECT_THAT(script, Not(HasSubstr("gpus-per-node")));
  asked.command = {"doctor"};
  EXPECT_WMTP_ERROR(batch_script(asked), ErrorKind::config, "`train` alone");
}

TEST(BatchScript, ANewFileThatCanBeExecuted) {
  const test::TempDir folder;
  write_batch_script(folder / "job.sbatch", "#!/bin/bash\n");
  struct stat found {};
  ASSERT_EQ(::stat((folder / "job.sbatch").c_str(), &found), 0);
  EXPECT_TRUE(found.st_mode & S_IXUSR);
  EXPECT_WMTP_ERROR(write_batch_script(folder / "job.sbatch", ""), ErrorKind::config, "it exists");
  EXPECT_EQ(test::slurp(folder / "job.sbatch"), "#!/bin/bash\n");
  EXPECT_WMTP_ERROR(write_batch_script(folder / "none/job", ""), ErrorKind::io, "cannot write");
}

}  // namespace
}  // namespace wmtp::cli
