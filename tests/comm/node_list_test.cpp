#include "wmtp/comm/launch/node_list.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace wmtp::comm {
namespace {

using Names = std::vector<std::string>;

TEST(NodeList, Expands) {
  EXPECT_EQ(expand_node_list("login"), Names{"login"});
  EXPECT_EQ(expand_node_list("a,b-1,c.d"), (Names{"a", "b-1", "c.d"}));
  EXPECT_EQ(expand_node_list("gpu[7,9-11]"), (Names{"gpu7", "gpu9", "gpu10", "gpu11"}));
  EXPECT_EQ(expand_node_list("n[008-011]"), (Names{"n008", "n009", "n010", "n011"}));
  EXPECT_EQ(
      expand_node_list("rack[1-2]n[01-03],login"),
      (Names{"rack1n01", "rack1n02", "rack1n03", "rack2n01", "rack2n02", "rack2n03", "login"}));
  EXPECT_EQ(expand_node_list("n[99-101]"), (Names{"n99", "n100", "n101"}));
  EXPECT_EQ(expand_node_list("n[0-65535]").size(), kMaxNodeNames);
}

TEST(NodeList, RefusesTheRest) {
  for (const char* bad : {"",
                          ",",
                          "a,,b",
                          "n[",
                          "n]",
                          "n[]",
                          "n[1",
                          "n1-3]",
                          "n[3-1]",
                          "n[1-2]x",
                          "n[1-3:2]",
                          "n[a-b]",
                          "n[1-]",
                          "n[-1]",
                          "n[1,,2]",
                          "n[[1]]",
                          "n[0-65536]",
                          "a[0-999]b[0-999]",
                          "n[1-99999999999999999999999]",
                          "a b"})
    EXPECT_WMTP_ERROR(expand_node_list(bad), ErrorKind::config, "cannot read the Slurm list");
}

TEST(NodeList, TasksPerNode) {
  EXPECT_EQ(expand_tasks_per_node("8(x2),4"), (std::vector{8, 8, 4}));
  EXPECT_EQ(expand_tasks_per_node("1"), std::vector{1});
  for (const char* bad : {"", "8(x", "8(x2", "x", "8(x2)4", "8(x99999999)", "8,,4", "(x2)"})
    EXPECT_WMTP_ERROR(expand_tasks_per_node(bad), ErrorKind::config, "cannot read the Slurm list");
}

}  // namespace
}  // namespace wmtp::comm
