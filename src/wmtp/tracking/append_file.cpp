#include "wmtp/tracking/append_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <string>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"

namespace wmtp::tracking {

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a FIFO must not hang before we can see that it is one.
  constexpr int kFlags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  file_ = UniqueFd(::open(path_.c_str(), kFlags, 0600));
  struct stat status {};
  if (!file_ && errno == ELOOP)
    throw Error(ErrorKind::io, "tracking",
                fmt::format("{} is a symbolic link; it is not followed", path_.string()),
                "remove it, or name the file it leads to (tracking.jsonl_path) or another run "
                "folder");
  if (!file_ || ::fstat(file_.get(), &status) != 0)
    throw Error(ErrorKind::io, "tracking",
                fmt::format("cannot open {} for writing: {}", path_.string(), std::strerror(errno)),
                "is the run folder writable?");
  if (!S_ISREG(status.st_mode))
    throw Error(ErrorKind::io, "tracking", fmt::format("{} is not a regular file", path_.string()));
  torn_ = !ends_in_line_feed();
}

bool AppendFile::ends_in_line_feed() const {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0 || status.st_size == 0) return true;
  char last = 0;
  return ::pread(file_.get(), &last, 1, status.st_size - 1) == 1 && last == '\n';
}

void AppendFile::line(const OrderedJson& object) {
  std::string text = torn_ ? "\n" : "";
  text += object.dump(-1, ' ', false, Json::error_handler_t::replace);
  text += '\n';
  if (write(text)) {
    torn_ = false;
    return;
  }
  const int reason = errno;
  if (num_lost_++ == 0)
    log::warn("tracking", "cannot write to {}: {}; its lines are lost until that works again",
              path_.string(), std::strerror(reason));
  torn_ = !ends_in_line_feed();
}

bool AppendFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(file_.get(), text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(done));
  }
  return true;
}

OrderedJson json_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

}  // namespace wmtp::tracking
