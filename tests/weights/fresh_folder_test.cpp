#include "wmtp/weights/fresh_folder.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/core/failpoint.h"

namespace wmtp::weights {
namespace {

namespace fs = std::filesystem;

bool is_ours(std::string_view name) {
  return name.starts_with("ours");
}

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(FreshFolder, AppearsOnCommitOnly) {
  test::TempDir folder;
  {
    FreshFolder fresh(folder / "new/deep", is_ours);
    test::write_file(fresh.path() / "ours", "1");
    EXPECT_FALSE(fs::exists(folder / "new/deep"));
    fresh.commit();
  }
  EXPECT_EQ(test::slurp(folder / "new/deep/ours"), "1");
  EXPECT_EQ(entries(folder / "new"), 1u);
}

TEST(FreshFolder, WithoutCommitNothingIsLeft) {
  test::TempDir folder;
  {
    FreshFolder fresh(folder / "d", is_ours);
    test::write_file(fresh.path() / "ours", "1");
  }
  EXPECT_EQ(entries(folder.path()), 0u);
}

TEST(FreshFolder, ReplacesAnOlderOneWhole) {
  test::TempDir folder;
  fs::create_directory(folder / "d");
  test::write_file(folder / "d/ours-old", "old");
  fs::create_directory_symlink(folder / "d", folder / "link");
  {
    FreshFolder fresh(folder / "link/", is_ours);  // where the link leads is replaced
    test::write_file(fresh.path() / "ours-new", "new");
    EXPECT_TRUE(fs::exists(folder / "d/ours-old"));
    fresh.commit();
  }
  EXPECT_FALSE(fs::exists(folder / "d/ours-old"));
  EXPECT_EQ(test::slurp(folder / "link/ours-new"), "new");
  EXPECT_EQ(entries(folder.path()), 2u);
}

TEST(FreshFolder, LeavesStrangersAlone) {
  test::TempDir folder;
  fs::create_directory(folder / "d");
  test::write_file(folder / "d/ours", "1");
  test::write_file(folder / "d/thesis.tex", "2");
  test::write_file(folder / "file", "3");
  EXPECT_WMTP_ERROR(FreshFolder(folder / "d", is_ours), ErrorKind::config, "thesis.tex");
  EXPECT_WMTP_ERROR(FreshFolder(folder / "file", is_ours), ErrorKind::config, "no folder");
  EXPECT_WMTP_ERROR(FreshFolder("/", is_ours), ErrorKind::config, "cannot be");
  EXPECT_WMTP_ERROR(FreshFolder::require_replaceable(folder / "d", is_ours), ErrorKind::config,
                    "thesis.tex");
  FreshFolder::require_replaceable(folder / "new/deep", is_ours);
  EXPECT_WMTP_ERROR(FreshFolder(folder / "file/d", is_ours), ErrorKind::io, "cannot");
  EXPECT_EQ(entries(folder / "d"), 2u);
  EXPECT_EQ(entries(folder.path()), 2u);
}

TEST(FreshFolder, ABareNameIsInTheCurrentFolder) {
  test::TempDir folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  {
    FreshFolder fresh("new", is_ours);
    test::write_file(fresh.path() / "ours", "1");
    fresh.commit();
  }
  fs::current_path(before);
  EXPECT_EQ(test::slurp(folder / "new/ours"), "1");
}

TEST(FreshFolder, OnlyAMarkedFolderIsReplaced) {
  test::TempDir folder;
  fs::create_directory(folder / "d");
  { const FreshFolder empty(folder / "d", is_ours, "ours-mark"); }
  test::write_file(folder / "d/ours", "1");
  EXPECT_WMTP_ERROR(FreshFolder(folder / "d", is_ours, "ours-mark"), ErrorKind::config,
                    "holds no ours-mark");
  test::write_file(folder / "d/ours-mark", "");
  { const FreshFolder marked(folder / "d", is_ours, "ours-mark"); }
  EXPECT_EQ(test::slurp(folder / "d/ours"), "1");
}

TEST(FreshFolder, AFailedRenameLeavesTheOldFolder) {
  if (!failpoint::kCompiledIn) GTEST_SKIP() << "built without failpoints";
  test::TempDir folder;
  fs::create_directory(folder / "d");
  test::write_file(folder / "d/ours", "old");
  {
    FreshFolder fresh(folder / "d", is_ours);
    test::write_file(fresh.path() / "ours", "new");
    failpoint::configure({.spec = "export.rename.before=enospc", .rank = 0, .log_path = {}});
    EXPECT_WMTP_ERROR(fresh.commit(), ErrorKind::io, "No space left");
    failpoint::configure({});
  }
  EXPECT_EQ(test::slurp(folder / "d/ours"), "old");
  EXPECT_EQ(entries(folder.path()), 1u);
}

}  // namespace
}  // namespace wmtp::weights
