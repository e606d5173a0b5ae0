#include "wmtp/checkpoint/format/names.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace wmtp::checkpoint {
namespace {

TEST(Names, Checkpoints) {
  EXPECT_EQ(checkpoint_name("qwen3_0_6b", 100), "qwen3_0_6b-100steps");
  const auto parsed = parse_checkpoint_name("a-b-12steps");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->model, "a-b");
  EXPECT_EQ(parsed->step, 12);
  EXPECT_TRUE(parse_checkpoint_name("m-0steps"));
  for (const char* bad :
       {"m-steps", "m-01steps", "-1steps", "m-1steps.bad-1", ".m-1steps.tmp-r", "m--1steps ",
        "m-+1steps", "m-1step", "m-99999999999999999999steps", "steps", "", "m-1e3steps", "1steps"})
    EXPECT_FALSE(parse_checkpoint_name(bad)) << bad;
  EXPECT_EQ(shard_file_name(0, 3), "shard-00001-model-00003-of-00003.safetensors");
}

TEST(Names, HiddenOnes) {
  const std::string name = hidden_name("m-5steps", "tmp", "run.1");
  EXPECT_EQ(name, ".m-5steps.tmp-run.1");
  const auto parsed = parse_hidden_name(name);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->name, "m-5steps");
  EXPECT_EQ(parsed->mark, "tmp");
  EXPECT_EQ(parse_hidden_name(".m-latest.old-x")->mark, "old");
  for (const char* bad : {"m-5steps.tmp-x", ".tmp-x", ".m-5steps", "..tmp-"})
    EXPECT_FALSE(parse_hidden_name(bad)) << bad;
}

TEST(Names, PartsOfFileNames) {
  check_name_part("Qwen3-0.6B_x", "model name");
  for (const char* bad : {"", "..", ".x", "a/b", "a b", "a\n", "ü"})
    EXPECT_WMTP_ERROR(check_name_part(bad, "run id"), ErrorKind::config, "the run id");
  EXPECT_WMTP_ERROR(check_name_part(std::string(129, 'a'), "model name"), ErrorKind::config, "128");
}

}  // namespace
}  // namespace wmtp::checkpoint
