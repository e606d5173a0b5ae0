#include "wmtp/cli/launcher/launch_console.h"

#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "wmtp/core/live_frame.h"

namespace wmtp::cli {
namespace {

bool is_regular(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

bool writable(int fd) {
  pollfd item{fd, POLLOUT, 0};
  return ::poll(&item, 1, 0) == 1;
}

}  // namespace

Console::Console(int fd) : fd_(fd), regular_(is_regular(fd)), terminal_(::isatty(fd) == 1) {}

void Console::write(int source, std::string_view prefix, std::string_view piece) {
  if (broken_ || piece.empty()) return;
  erase_drawing();
  if (open_source_ != -1 && open_source_ != source) {
    queue_ += '\n';
    open_source_ = -1;
  }
  if (open_source_ == -1) queue_ += prefix;
  queue_ += piece;
  open_source_ = piece.back() == '\n' ? -1 : source;
}

void Console::draw(std::string_view frame) {
  if (broken_ || !terminal_) return;
  if (open_source_ != -1) queue_ += '\n';
  open_source_ = -1;
  queue_ += frame;
  drawing_stands_ = true;
}

void Console::erase_drawing() {
  if (drawing_stands_ && !broken_) queue_ += kEraseBelow;
  drawing_stands_ = false;
}

std::size_t Console::write_some() {
  if (!regular_ && !writable(fd_)) return 0;
  // A pipe that polls writable takes PIPE_BUF bytes without blocking, more might block.
  const std::size_t limit = regular_ ? queue_.size() : PIPE_BUF;
  const std::size_t bytes = std::min(queue_.size() - head_, limit);
  const ssize_t taken = ::write(fd_, queue_.data() + head_, bytes);
  if (taken >= 0) return static_cast<std::size_t>(taken);
  if (errno != EINTR && errno != EAGAIN) broken_ = true;
  return 0;
}

void Console::pump() {
  while (pending() && !broken_) {
    const std::size_t taken = write_some();
    if (taken == 0) break;
    head_ += taken;
  }
  if (broken_ || !pending()) {
    queue_.clear();
    head_ = 0;
  } else if (head_ > kMaxQueueBytes) {
    queue_.erase(0, head_);
    head_ = 0;
  }
}

}  // namespace wmtp::cli
