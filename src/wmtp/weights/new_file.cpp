#include "wmtp/weights/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "wmtp/core/error.h"

namespace wmtp::weights {

NewFile::NewFile(const std::filesystem::path& path, unsigned mode) : path_(path) {
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  file_ = UniqueFd(::open(path.c_str(), flags, mode));
  if (!file_) fail("create");
}

void NewFile::fail(std::string_view action) const {
  const int code = errno;
  throw Error(
      ErrorKind::io, "checkpoint",
      fmt::format("cannot {} {}: {}", action, path_.string(), std::strerror(code)),
      code == ENOSPC || code == EDQUOT || code == EFBIG ? "is there enough space for it?" : "");
}

void NewFile::reserve(std::uint64_t bytes) {
  if (bytes == 0) return;
  if (::fallocate(file_.get(), 0, 0, static_cast<off_t>(bytes)) != 0 && errno != EOPNOTSUPP &&
      errno != ENOSYS && errno != EINVAL)
    fail(fmt::format("reserve {} bytes for", bytes));
}

void NewFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done =
        ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("write");
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
    size_ = std::max(size_, offset);
  }
}

void NewFile::append(std::span<const std::byte> bytes) {
  write_at(size_, bytes);
}

void NewFile::finish() {
  if (::fsync(file_.get()) != 0) fail("fsync");
  if (::close(file_.release()) != 0) fail("close");
}

void write_new_file(const std::filesystem::path& path, std::string_view text, unsigned mode) {
  NewFile file(path, mode);
  file.append(std::as_bytes(std::span(text.data(), text.size())));
  file.finish();
}

}  // namespace wmtp::weights
