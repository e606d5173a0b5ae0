// One conformance suite for all bodies of storage::FileSystem, and what only the crashing one does.
#include "wmtp/storage/file_system.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "support/crash_store.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace wmtp::storage {
namespace {

using test::CrashStore;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void put(FileSystem& files, const std::filesystem::path& path, std::string_view text) {
  const auto file = files.create_file(path);
  file->write(bytes_of(text));
  file->sync();
  file->close();
}

template <class Call>
int code_of(Call&& call) {
  try {
    call();
    return 0;
  } catch (const FileError& error) {
    return error.code();
  }
}

struct LocalBody {
  LocalFileSystem files;
  test::TempDir folder;
  std::filesystem::path root() const { return folder.path(); }
};
struct CrashBody {
  CrashStore files;
  CrashBody() { files.create_folder("/top"); }
  std::filesystem::path root() const { return "/top"; }
};

template <class Body>
class FileSystemBody : public testing::Test {
 protected:
  Body body;
  FileSystem& files = body.files;
  std::filesystem::path root = body.root();
};
using Bodies = testing::Types<LocalBody, CrashBody>;
TYPED_TEST_SUITE(FileSystemBody, Bodies);

TYPED_TEST(FileSystemBody, WritesInPiecesAndReadsAnyRange) {
  const auto file = this->files.create_file(this->root / "a");
  file->write(bytes_of("hello "));
  file->write(bytes_of("world"));
  file->sync();
  file->close();
  const auto input = this->files.open(this->root, "a", "test");
  EXPECT_EQ(input->size(), 11u);
  std::string text(5, ' ');
  input->read(3, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "lo wo");
  EXPECT_EQ(code_of([&] { input->read(8, std::as_writable_bytes(std::span(text))); }), EIO);
  EXPECT_EQ(read_text(this->files, this->root, "a", "test", 11), "hello world");
  EXPECT_WMTP_ERROR(read_text(this->files, this->root, "a", "test", 10), ErrorKind::data,
                    "11 bytes");
}

// Sizes that do and do not end with a block of the disk, and one that was never reached.
TYPED_TEST(FileSystemBody, AnnouncedFilesHoldWhatWasWritten) {
  constexpr std::size_t kLarge = (std::size_t{20} << 20) + 777;
  std::string text(kLarge, ' ');
  for (std::size_t i = 0; i < kLarge; ++i) text[i] = static_cast<char>('a' + (i * i >> 7) % 23);
  for (const std::size_t size :
       {kLarge, std::size_t{16} << 20, std::size_t{5000}, std::size_t{0}}) {
    const auto path = this->root / std::to_string(size);
    const auto file = this->files.create_file(path);
    file->expect(kLarge);
    const std::string_view content(text.data(), size);
    for (std::size_t at = 0, piece = 13; at < size; at += piece, piece = piece * 3 + 1)
      file->write(bytes_of(content.substr(at, piece)));
    if (size != 5000) file->sync();  // close() writes what is left, too
    file->close();
    EXPECT_EQ(read_text(this->files, this->root, path.filename().string(), "test", kLarge), content)
        << size;
  }
}

TYPED_TEST(FileSystemBody, NamesThatExistOrNot) {
  FileSystem& files = this->files;
  const auto& root = this->root;
  put(files, root / "a", "x");
  files.create_folder(root / "f");
  EXPECT_EQ(code_of([&] { files.create_file(root / "a"); }), EEXIST);
  EXPECT_EQ(code_of([&] { files.create_folder(root / "f"); }), EEXIST);
  EXPECT_EQ(code_of([&] { files.create_file(root / "no" / "a"); }), ENOENT);
  EXPECT_EQ(code_of([&] { files.remove_file(root / "no"); }), ENOENT);
  EXPECT_EQ(code_of([&] { files.rename(root / "no", root / "b"); }), ENOENT);
  EXPECT_EQ(code_of([&] { files.list(root / "no"); }), ENOENT);
  EXPECT_EQ(files.status(root / "no").kind, FileKind::missing);
  EXPECT_EQ(files.status(root / "a").kind, FileKind::file);
  EXPECT_EQ(files.status(root / "a").bytes, 1u);
  EXPECT_EQ(files.status(root / "f").kind, FileKind::folder);
  EXPECT_THROW(files.open(root, "no", "test"), Error);
  EXPECT_WMTP_ERROR(files.open(root, "../a", "test"), ErrorKind::data, "..");
  EXPECT_GT(files.free_bytes(root), 0u);
}

TYPED_TEST(FileSystemBody, RenameReplacesFilesButNoFullFolder) {
  FileSystem& files = this->files;
  const auto& root = this->root;
  put(files, root / "a", "new");
  put(files, root / "b", "old");
  files.rename(root / "a", root / "b");
  EXPECT_EQ(read_text(files, root, "b", "test", 10), "new");
  files.create_folder(root / "f");
  files.create_folder(root / "g");
  put(files, root / "g" / "x", "1");
  EXPECT_NE(code_of([&] { files.rename(root / "f", root / "g"); }), 0);
  files.rename(root / "g", root / "h");
  EXPECT_EQ(read_text(files, root / "h", "x", "test", 10), "1");
}

TYPED_TEST(FileSystemBody, ListsInOrderAndRemovesTrees) {
  FileSystem& files = this->files;
  const auto& root = this->root;
  for (const char* name : {"c", "a", "b"}) put(files, root / name, name);
  files.create_folder(root / "d");
  put(files, root / "d" / "x", "");
  std::string names;
  for (const FolderEntry& entry : files.list(root))
    names += entry.name + (entry.kind == FileKind::folder ? "/" : "");
  EXPECT_EQ(names, "abcd/");
  EXPECT_NE(code_of([&] { files.remove_folder(root / "d"); }), 0);
  remove_tree(files, root / "d");
  remove_tree(files, root / "d");
  remove_tree(files, root / "a");
  EXPECT_EQ(files.list(root).size(), 2u);
  files.sync_folder(root);
}

TEST(LocalFiles, LinksAreNotFollowed) {
  const test::TempDir folder;
  LocalFileSystem files;
  put(files, folder / "a", "x");
  std::filesystem::create_symlink(folder / "a", folder / "link");
  EXPECT_EQ(files.status(folder / "link").kind, FileKind::other);
  EXPECT_WMTP_ERROR(files.open(folder.path(), "link", "test"), ErrorKind::data, "link");
  EXPECT_EQ(code_of([&] { files.create_file(folder / "link"); }), EEXIST);
  remove_tree(files, folder / "link");
  EXPECT_EQ(files.status(folder / "a").kind, FileKind::file);
}

TEST(LocalFiles, AFullDiskIsToldBeforeTheFirstByte) {
  const test::TempDir folder;
  LocalFileSystem files;
  const auto file = files.create_file(folder / "a");
  EXPECT_EQ(code_of([&] { file->expect(std::uint64_t{1} << 60); }), EFBIG);
}

// The limit strikes a write that is on its way while the next is prepared.
TEST(LocalFiles, AFailedWriteOfALargeFileIsToldAtTheLatestBySync) {
  const test::TempDir folder;
  LocalFileSystem files;
  const auto status = [&] {
    struct rlimit limit {};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 17 << 20;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_IGN);
    const auto file = files.create_file(folder / "a");
    const std::string text(24 << 20, 'x');
    const int code = code_of([&] {
      file->expect(16 << 20);
      file->write(bytes_of(text));
      file->sync();
    });
    std::_Exit(code == EFBIG ? 0 : 1);
  };
  EXPECT_EXIT(status(), testing::ExitedWithCode(0), "");
}

TEST(CrashStore, SyncedThingsSurviveEveryPowerLoss) {
  CrashStore store;
  put(store, "/a", std::string(5000, 'a'));
  store.sync_folder("/");
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CrashStore after(store);
    after.power_loss(seed);
    EXPECT_EQ(after.bytes("/a"), std::string(5000, 'a'));
  }
}

TEST(CrashStore, UnsyncedThingsAreKeptLostAndTorn) {
  CrashStore store;
  const auto file = store.create_file("/a");
  store.sync_folder("/");
  file->write(bytes_of(std::string(10'000, 'a')));
  put(store, "/b", "synced, but not its name");
  store.rename("/a", "/c");
  int kept = 0, lost = 0, torn = 0, zeros = 0, named = 0, renamed = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CrashStore after(store);
    after.power_loss(seed);
    named += after.status("/b").kind == FileKind::file;
    renamed += after.status("/c").kind == FileKind::file;
    EXPECT_NE(after.status("/a").kind == FileKind::file, after.status("/c").kind == FileKind::file);
    const std::string& bytes = after.bytes(after.status("/a").kind == FileKind::file ? "/a" : "/c");
    const auto num_a = std::count(bytes.begin(), bytes.end(), 'a');
    kept += num_a == 10'000;
    lost += bytes.empty();
    torn += num_a > 0 && num_a < 10'000;
    zeros += !bytes.empty() && bytes.back() == '\0';
  }
  for (const int count : {kept, lost, torn, zeros, named, renamed}) EXPECT_GT(count, 10);
  EXPECT_LT(named, 390);
  EXPECT_LT(renamed, 390);
}

TEST(CrashStore, FaultsComeAtTheirCall) {
  CrashStore store;
  store.fail(2, ENOSPC, CrashStore::Fail::once, true);
  const auto file = store.create_file("/a");
  EXPECT_EQ(code_of([&] { file->write(bytes_of("12345678")); }), ENOSPC);
  EXPECT_EQ(store.bytes("/a"), "1234");
  file->write(bytes_of("x"));
  store.fail(1, EIO, CrashStore::Fail::once);
  EXPECT_EQ(code_of([&] { file->sync(); }), EIO);
  EXPECT_EQ(store.bytes("/a"), "");  // lost, and a second fsync would not say so
  EXPECT_EQ(code_of([&] { file->sync(); }), 0);
  store.fail(2, EROFS, CrashStore::Fail::always);
  EXPECT_EQ(store.status("/a").bytes, 0u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(code_of([&] { store.sync_folder("/"); }), EROFS);
  store.cut_at(2);
  store.sync_folder("/");
  EXPECT_THROW(store.sync_folder("/"), CrashStore::PowerCut);
  EXPECT_THROW(store.list("/"), CrashStore::PowerCut);
}

}  // namespace
}  // namespace wmtp::storage
