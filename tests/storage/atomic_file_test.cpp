#include "wmtp/storage/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace wmtp::storage {
namespace {

namespace fs = std::filesystem;
using test::slurp;
using test::TempDir;

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(AtomicFile, AppearsWholeOnCommitAndNotBefore) {
  TempDir folder;
  AtomicFile file(folder / "a");
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    const std::string piece = std::to_string(i) + std::string(i % 7 == 0 ? 300'000 : 10, 'x');
    file.write(piece);
    expected += piece;
  }
  EXPECT_EQ(file.size(), expected.size());
  EXPECT_FALSE(fs::exists(folder / "a"));
  file.commit();
  EXPECT_EQ(slurp(folder / "a"), expected);
  EXPECT_EQ(entries(folder.path()), std::vector<std::string>{"a"});
}

TEST(AtomicFile, ReplacesTheOldFileOrLeavesIt) {
  TempDir folder;
  write_file_atomically(folder / "a", "old");
  {
    AtomicFile abandoned(folder / "a");
    abandoned.write("new");
  }
  EXPECT_EQ(slurp(folder / "a"), "old");
  write_file_atomically(folder / "a", "new");
  EXPECT_EQ(slurp(folder / "a"), "new");
  EXPECT_EQ(entries(folder.path()), std::vector<std::string>{"a"});
}

TEST(AtomicFile, IsPrivateUnlessAsked) {
  TempDir folder;
  const mode_t old = ::umask(022);
  write_file_atomically(folder / "secret", "s");
  write_file_atomically(folder / "export", "e", AtomicFile::kPublic);
  ::umask(old);
  EXPECT_EQ(fs::status(folder / "secret").permissions(), fs::perms(0600));
  EXPECT_EQ(fs::status(folder / "export").permissions(), fs::perms(0644));
}

TEST(AtomicFile, NamesTheFolderThatIsMissing) {
  TempDir folder;
  EXPECT_WMTP_ERROR(AtomicFile(folder / "none/a"), ErrorKind::io, "none/.a.tmp-");
}

TEST(AtomicFile, AWriteThatFailsLeavesNothingBehind) {
  TempDir folder;
  write_file_atomically(folder / "a", "old");
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1 << 20;
  ::setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_WMTP_ERROR(write_file_atomically(folder / "a", std::string(4 << 20, 'x')), ErrorKind::io,
                    "File too large");
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(slurp(folder / "a"), "old");
  EXPECT_EQ(entries(folder.path()), std::vector<std::string>{"a"});
}

TEST(AtomicFile, AFailedRenameLeavesNothingBehind) {
  TempDir folder;
  fs::create_directories(folder / "taken/by");
  EXPECT_WMTP_ERROR(write_file_atomically(folder / "taken", "x"), ErrorKind::io,
                    "rename into place");
  EXPECT_EQ(entries(folder.path()), std::vector<std::string>{"taken"});
}

}  // namespace
}  // namespace wmtp::storage
