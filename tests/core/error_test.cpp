#include "wmtp/core/error.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/temp_dir.h"
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

TEST(Suggest, AMissingPathIsComparedWithWhatIsThere) {
  const test::TempDir dir;
  for (const char* name : {"a", "b", "c", "d", "e", "f"})
    std::filesystem::create_directories(dir / "models/llama-7b" / name);
  EXPECT_EQ(near_path(dir / "modles/lama-7b/"), (dir / "models/llama-7b").string());
  EXPECT_EQ(near_path(dir / "models/x"), std::nullopt);
  EXPECT_EQ(missing_path_hint(dir / "modles/llama-7b/a"),
            fmt::format("did you mean {}?", (dir / "models/llama-7b/a").string()));
  EXPECT_EQ(missing_path_hint(dir / "models/x"),
            fmt::format("{} holds llama-7b", (dir / "models").string()));
  EXPECT_EQ(missing_path_hint(dir / "models/llama-7b/xyz/uvw"),
            fmt::format("{} holds a, b, c, d, e and 1 more", (dir / "models/llama-7b").string()));
  EXPECT_EQ(missing_path_hint(dir / "models/llama-7b/a/xyz"),
            fmt::format("{} is there, and empty", (dir / "models/llama-7b/a").string()));
}

}  // namespace
}  // namespace wmtp
