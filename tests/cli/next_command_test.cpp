#include "wmtp/cli/next_command.h"

#include <gtest/gtest.h>

namespace wmtp::cli {
namespace {

TEST(NextCommand, AfterTheEndIsTheReport) {
  EXPECT_EQ(command_after_end("runs/a"), "wmtp report runs/a");
  EXPECT_EQ(command_after_end("runs/my run's"), "wmtp report 'runs/my run'\\''s'");
}

TEST(NextCommand, AfterAStopIsTheCommandThatGoesOn) {
  StartedCommand started{.words = {"train", "--config", "a b.yaml"}};
  EXPECT_EQ(command_after_stop(started), "wmtp train --config 'a b.yaml'");
  started.world = 4;
  EXPECT_EQ(command_after_stop(started), "the same command again");  // torchrun, srun
  started.by_wmtp_launch = true;
  EXPECT_EQ(command_after_stop(started), "wmtp launch --nproc 4 -- train --config 'a b.yaml'");
}

TEST(NextCommand, ARunThatWasToldToStartOverGoesOnAllTheSame) {
  StartedCommand started{.words = {"train", "--resume", "never", "--config", "a.yaml"},
                         .resumes = false};
  EXPECT_EQ(command_after_stop(started), "wmtp train --config a.yaml --resume auto");
  started.words = {"train", "--config", "a.yaml", "--resume=runs/b"};
  EXPECT_EQ(command_after_stop(started), "wmtp train --config a.yaml --resume auto");
}

}  // namespace
}  // namespace wmtp::cli
