#include "wmtp/storage/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace wmtp::storage {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{256} << 10;

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// Not guessable: the folder may be shared with others.
std::filesystem::path temporary_name(const std::filesystem::path& path) {
  std::uint64_t tag = 0;
  if (::getrandom(&tag, sizeof tag, 0) != sizeof tag)
    throw Error(ErrorKind::io, "storage", "the system gives no random bytes");
  // A long target name must not push the temporary one over the limit of 255 bytes.
  const std::string stem = path.filename().string().substr(0, 200);
  return folder_of(path) / fmt::format(".{}.tmp-{:016x}", stem, tag);
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path, unsigned mode)
    : path_(path), temporary_(temporary_name(path)) {
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  file_ = UniqueFd(::open(temporary_.c_str(), flags, mode));
  if (!file_)
    throw Error(ErrorKind::io, "storage",
                fmt::format("cannot create {}: {}", temporary_.string(), std::strerror(errno)),
                "does the folder exist, and may you write there?");
  pending_.reserve(kBufferBytes);
}

AtomicFile::~AtomicFile() {
  if (!committed_ && !temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(std::string_view action) {
  failed_ = true;
  throw Error(ErrorKind::io, "storage",
              fmt::format("cannot {} {}: {}", action, temporary_.string(), std::strerror(errno)));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  WMTP_CHECK(!failed_ && !committed_, "write to a finished file");
  size_ += bytes.size();
  if (pending_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() > kBufferBytes)
    write_through(bytes);
  else
    pending_.insert(pending_.end(), bytes.begin(), bytes.end());
}

void AtomicFile::flush() {
  write_through(pending_);
  pending_.clear();
}

void AtomicFile::write_through(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(file_.get(), bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("write");
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void AtomicFile::commit() {
  WMTP_CHECK(!failed_ && !committed_, "commit of a finished file");
  flush();
  // Neither is tried twice: after a failed fsync the kernel may call lost pages clean.
  if (::fsync(file_.get()) != 0) fail("fsync");
  if (::close(file_.release()) != 0) fail("close");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename into place");
  committed_ = true;
  sync_folder(folder_of(path_));
}

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes,
                           unsigned mode) {
  AtomicFile file(path, mode);
  file.write(bytes);
  file.commit();
}

void sync_folder(const std::filesystem::path& folder) {
  UniqueFd handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!handle || ::fsync(handle.get()) != 0)
    throw Error(ErrorKind::io, "storage",
                fmt::format("cannot fsync folder {}: {}", folder.string(), std::strerror(errno)));
}

}  // namespace wmtp::storage
