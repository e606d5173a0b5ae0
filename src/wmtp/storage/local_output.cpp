#include "wmtp/storage/local_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace wmtp::storage {
namespace {

constexpr unsigned kFileMode = 0600;
constexpr std::size_t kAlignment = 4096;
constexpr std::size_t kBlockBytes = std::size_t{4} << 20;
constexpr std::uint64_t kDirectBytes = 4 * kBlockBytes;  // smaller files: not worth the set-up
// Where the page cache takes the bytes, one fsync of them all could last for many minutes, and who
// watches the writing could not tell it from a server that hangs.
constexpr std::uint64_t kUnsyncedBytes = std::uint64_t{1} << 30;

}  // namespace

LocalOutput::LocalOutput(const std::filesystem::path& path) : path_(path) {
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  file_ = UniqueFd(::open(path.c_str(), flags, kFileMode));
  if (!file_) throw FileError(errno, "create", path);
}

void LocalOutput::expect(std::uint64_t total_bytes) {
  if (total_bytes < kDirectBytes || written_ > 0) return;
  // Not every file system can; only a full one is an error.
  if (::fallocate(file_.get(), 0, 0, static_cast<off_t>(total_bytes)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
    throw FileError(errno, "reserve", path_);
  if (::fcntl(file_.get(), F_SETFL, O_DIRECT) != 0) return;
  for (Block& block : blocks_) {
    block.bytes.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kBlockBytes)));
    if (!block.bytes) throw std::bad_alloc();
  }
}

void LocalOutput::write(std::span<const std::byte> bytes) {
  if (!blocks_[0].bytes) {
    write_at(bytes, written_);
    written_ += bytes.size();
    return push_out();
  }
  while (!bytes.empty()) {
    Block& block = blocks_[current_];
    if (block.sent.valid()) block.sent.get();
    const std::size_t taken = std::min(bytes.size(), kBlockBytes - filled_);
    std::memcpy(block.bytes.get() + filled_, bytes.data(), taken);
    filled_ += taken;
    bytes = bytes.subspan(taken);
    if (filled_ == kBlockBytes) send_block();
  }
}

void LocalOutput::send_block() {
  Block& block = blocks_[current_];
  const std::size_t padded = (filled_ + kAlignment - 1) / kAlignment * kAlignment;
  std::memset(block.bytes.get() + filled_, 0, padded - filled_);
  const std::span<const std::byte> bytes(block.bytes.get(), padded);
  block.sent =
      std::async(std::launch::async, [this, bytes, offset = written_] { write_at(bytes, offset); });
  written_ += filled_;
  filled_ = 0;
  current_ = (current_ + 1) % blocks_.size();
  push_out();
}

void LocalOutput::push_out() {
  if (written_ - synced_ < kUnsyncedBytes) return;
  if (::fdatasync(file_.get()) != 0) throw FileError(errno, "fsync", path_);
  synced_ = written_;
}

void LocalOutput::finish_blocks() {
  if (!blocks_[0].bytes) return;
  if (filled_ > 0) send_block();
  for (Block& block : blocks_)
    if (block.sent.valid()) block.sent.get();
  for (Block& block : blocks_) block.bytes.reset();
  if (::ftruncate(file_.get(), static_cast<off_t>(written_)) != 0)
    throw FileError(errno, "cut to its size", path_);
}

void LocalOutput::write_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  bool may_be_direct = true;
  while (!bytes.empty()) {
    const ssize_t done =
        ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    // What a file system asks of O_DIRECT shows only now; what follows a short write is unaligned.
    if (done < 0 && errno == EINVAL && std::exchange(may_be_direct, false) &&
        ::fcntl(file_.get(), F_SETFL, 0) == 0)
      continue;
    if (done < 0) throw FileError(errno, "write", path_);
    offset += static_cast<std::uint64_t>(done);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void LocalOutput::sync() {
  finish_blocks();
  if (::fsync(file_.get()) != 0) throw FileError(errno, "fsync", path_);
}

void LocalOutput::close() {
  finish_blocks();
  if (::close(file_.release()) != 0) throw FileError(errno, "close", path_);
}

}  // namespace wmtp::storage
