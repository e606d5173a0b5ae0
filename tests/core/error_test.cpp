#include "wmtp/core/error.h"

#include <gtest/gtest.h>

#include "wmtp/core/suggest.h"

namespace wmtp {
namespace {

TEST(Error, TellsModuleFactAndHint) {
  const Error error(ErrorKind::checkpoint, "checkpoint", "header 9 GB > file 2 GB",
                    "is the download complete?");
  EXPECT_STREQ(error.what(), "[checkpoint] header 9 GB > file 2 GB; is the download complete?");
  EXPECT_EQ(exit_code(error.kind()), ExitCode::storage);
}

TEST(Suggest, FindsTheNearName) {
  const std::vector<std::string> names{"sharding_strategy", "mixed_precision"};
  EXPECT_EQ(nearest("shardng_strategy", names), "sharding_strategy");
  EXPECT_EQ(nearest("quite_other", names), std::nullopt);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

}  // namespace
}  // namespace wmtp
