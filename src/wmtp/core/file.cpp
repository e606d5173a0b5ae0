#include "wmtp/core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "wmtp/core/unique_fd.h"

namespace wmtp {
std::string read_file(const std::filesystem::path& path, std::size_t max_bytes, ErrorKind kind) {
  auto refuse = [&](std::string fact) {
    throw Error(kind, "file", fmt::format("cannot read {}: {}", path.string(), fact));
  };
  // O_NONBLOCK: opening a FIFO must not hang before we can see that it is one.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) refuse(std::strerror(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) refuse(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) refuse("it is not a regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > max_bytes) refuse(fmt::format("{} bytes, the limit is {}", size, max_bytes));
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(std::strerror(errno));
    if (got == 0) refuse(fmt::format("it shrank from {} to {} bytes while being read", size, done));
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

}  // namespace wmtp
