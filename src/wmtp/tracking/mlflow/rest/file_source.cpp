#include "wmtp/tracking/mlflow/rest/file_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "wmtp/core/error.h"

namespace wmtp::tracking::mlflow {

FileSource::FileSource(const std::filesystem::path& path)
    : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
  struct stat status {};
  if (!file_ || ::fstat(file_.get(), &status) != 0)
    throw Error(ErrorKind::io, "mlflow",
                fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
  if (!S_ISREG(status.st_mode))
    throw Error(ErrorKind::io, "mlflow", fmt::format("{} is no regular file", path.string()));
  file_bytes_ = length_ = static_cast<std::uint64_t>(status.st_size);
}

void FileSource::select(std::uint64_t first, std::uint64_t length) {
  WMTP_CHECK(first <= file_bytes_ && length <= file_bytes_ - first, "a part beyond the file");
  first_ = first;
  length_ = length;
  done_ = 0;
}

std::size_t FileSource::read(std::span<std::byte> out) {
  const auto wanted =
      static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), length_ - done_));
  if (wanted == 0) return 0;
  ssize_t taken = 0;
  do {
    taken = ::pread(file_.get(), out.data(), wanted, static_cast<off_t>(first_ + done_));
  } while (taken < 0 && errno == EINTR);
  if (taken < 0)
    throw Error(ErrorKind::io, "mlflow",
                fmt::format("cannot read {}: {}", path_.string(), std::strerror(errno)));
  if (taken == 0)
    throw Error(
        ErrorKind::io, "mlflow",
        fmt::format("{} has become shorter than the {} bytes it had", path_.string(), file_bytes_),
        "was it written while it was sent?");
  done_ += static_cast<std::uint64_t>(taken);
  return static_cast<std::size_t>(taken);
}

}  // namespace wmtp::tracking::mlflow
