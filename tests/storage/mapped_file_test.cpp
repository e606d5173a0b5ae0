#include "wmtp/storage/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace wmtp::storage {
namespace {

namespace fs = std::filesystem;
using test::TempDir;
using test::write_file;

std::string text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.size()};
}

TEST(MappedFile, ShowsTheBytesAndSurvivesAMove) {
  TempDir folder;
  write_file(folder / "a", "seven bytes");
  MappedFile first = MappedFile::open(folder / "a");
  MappedFile second = std::move(first);
  second.advise(Access::sequential);
  second.drop(0, second.size());
  EXPECT_EQ(text(second), "seven bytes");
  EXPECT_EQ(first.size(), 0u);
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  TempDir folder;
  write_file(folder / "empty", "");
  EXPECT_TRUE(MappedFile::open(folder / "empty").bytes().empty());
}

TEST(MappedFile, RefusesWhatIsNoRegularFile) {
  TempDir folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_WMTP_ERROR(MappedFile::open(folder / "fifo"), ErrorKind::data, "not a regular file");
  EXPECT_WMTP_ERROR(MappedFile::open(folder.path()), ErrorKind::data, "not a regular file");
  EXPECT_WMTP_ERROR(MappedFile::open("/dev/zero"), ErrorKind::data, "not a regular file");
  EXPECT_WMTP_ERROR(MappedFile::open(folder / "none"), ErrorKind::io, "No such file");
  EXPECT_WMTP_ERROR(MappedFile::open(folder / "none", ErrorKind::config), ErrorKind::config,
                    "No such file");
}

TEST(OpenBeneath, OpensPlainNames) {
  TempDir folder;
  write_file(folder / "a.bin", "a");
  write_file(folder / "sub/b.bin", "bb");
  auto open = [&](std::string_view name) {
    return text(MappedFile::map(open_beneath(folder.path(), name, "index"), folder / name));
  };
  EXPECT_EQ(open("a.bin"), "a");
  EXPECT_EQ(open("sub/b.bin"), "bb");
  EXPECT_EQ(open("sub/b.bin"), "bb");
  write_file(folder / "..hidden", "h");
  EXPECT_EQ(open("..hidden"), "h");
}

TEST(OpenBeneath, RefusesNamesThatLeadElsewhere) {
  TempDir folder;
  write_file(folder / "in/a", "a");
  write_file(folder / "secret", "s");
  const std::pair<std::string, std::string> cases[] = {
      {"", "empty"},
      {"/etc/passwd", "absolute"},
      {"../secret", "\"..\" component"},
      {"sub/../../secret", "\"..\" component"},
      {"./a", "\".\" component"},
      {"sub//a", "empty component"},
      {"a/", "empty component"},
      {std::string("a\0b", 3), "NUL"},
      {std::string(4097, 'x'), "4097 bytes"},
  };
  for (const auto& [name, fact] : cases)
    EXPECT_WMTP_ERROR(open_beneath(folder / "in", name, "the index"), ErrorKind::data, fact);
}

TEST(OpenBeneath, FollowsLinksOnlyWhereBareNamesMayBeLinks) {
  TempDir folder;
  write_file(folder / "blobs/data", "weights");
  fs::create_directories(folder / "snapshot");
  fs::create_symlink("../blobs/data", folder / "snapshot/model.safetensors");
  fs::create_directory_symlink("../blobs", folder / "snapshot/linked");
  const fs::path base = folder / "snapshot";
  EXPECT_WMTP_ERROR(open_beneath(base, "model.safetensors", "manifest"), ErrorKind::data,
                    "symbolic link");
  EXPECT_WMTP_ERROR(open_beneath(base, "linked/data", "manifest"), ErrorKind::data,
                    "symbolic link");
  EXPECT_WMTP_ERROR(open_beneath(base, "linked/data", "index", Links::allow_bare_name),
                    ErrorKind::data, "symbolic link");
  EXPECT_TRUE(bool(open_beneath(base, "model.safetensors", "index", Links::allow_bare_name)));
}

}  // namespace
}  // namespace wmtp::storage
