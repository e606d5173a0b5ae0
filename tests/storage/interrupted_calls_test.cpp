// Signals that end a call, and calls that take a part of the bytes: files are whole all the same.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "support/temp_dir.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/storage/file_system.h"

namespace {

std::atomic<bool> disturbs{false};
std::atomic<int> num_disturbed_calls{0}, num_interrupts{0};

// Of every three calls the first is interrupted and the second takes half of the bytes.
template <class Call>
ssize_t disturbed(std::size_t count, Call&& call) {
  if (!disturbs) return call(count);
  switch (num_disturbed_calls++ % 3) {
    case 0:
      ++num_interrupts;
      errno = EINTR;
      return -1;
    case 1:
      return call(count - count / 2);
    default:
      return call(count);
  }
}

}  // namespace

// They stand before those of the C library: signals do not interrupt the calls of a local disk.
extern "C" ssize_t write(int fd, const void* bytes, size_t count) {
  return disturbed(count, [&](std::size_t n) { return ::syscall(SYS_write, fd, bytes, n); });
}
extern "C" ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  return disturbed(count,
                   [&](std::size_t n) { return ::syscall(SYS_pwrite64, fd, bytes, n, offset); });
}
extern "C" ssize_t pread(int fd, void* bytes, size_t count, off_t offset) {
  return disturbed(count,
                   [&](std::size_t n) { return ::syscall(SYS_pread64, fd, bytes, n, offset); });
}

namespace wmtp::storage {
namespace {

class InterruptedCalls : public testing::TestWithParam<std::size_t> {
 protected:
  // What `step` does under interrupts, which it must have met.
  template <class Step>
  static void disturb(Step&& step) {
    num_disturbed_calls = num_interrupts = 0;
    disturbs = true;
    try {
      step();
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
    disturbs = false;
    EXPECT_GT(num_interrupts, 0);
  }
  static std::string some_text(std::size_t num_bytes) {
    std::string text(num_bytes, '\0');
    for (std::size_t i = 0; i < num_bytes; ++i) text[i] = static_cast<char>(i * 2654435761u >> 13);
    return text;
  }

  const test::TempDir folder;
  const std::string text = some_text(GetParam());
};

TEST_P(InterruptedCalls, LocalFilesAreWrittenAndReadWhole) {
  LocalFileSystem files;
  disturb([&] {
    const auto file = files.create_file(folder / "a");
    file->expect(text.size());
    file->write(std::as_bytes(std::span(text)));
    file->sync();
    file->close();
  });
  EXPECT_TRUE(test::slurp(folder / "a") == text);
  std::string again(text.size(), '\0');
  disturb([&] {
    files.open(folder.path(), "a", "test")->read(0, std::as_writable_bytes(std::span(again)));
  });
  EXPECT_TRUE(again == text);
}

TEST_P(InterruptedCalls, AtomicFilesAreWhole) {
  disturb([&] { write_file_atomically(folder / "a", text); });
  EXPECT_TRUE(test::slurp(folder / "a") == text);
}

// The last is written in blocks past the page cache, where the system can.
INSTANTIATE_TEST_SUITE_P(Bytes, InterruptedCalls, testing::Values(5, 100'000, (17 << 20) + 3));

}  // namespace
}  // namespace wmtp::storage
