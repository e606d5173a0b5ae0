#include "wmtp/cli/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "wmtp/core/unique_fd.h"

namespace wmtp::cli {
namespace {

constexpr std::size_t kUsualColumns = 80;

std::size_t asked_columns(int fd) {
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

bool reaches_terminal(int fd) {
  if (std::getenv("WMTP_ON_TERMINAL")) return true;
  // Open MPI gives the output of every rank a terminal of its own, even where mpirun's is a file.
  return ::isatty(fd) == 1 && !std::getenv("OMPI_COMM_WORLD_RANK");
}

std::size_t terminal_columns(int fd) {
  if (const std::size_t columns = asked_columns(fd)) return columns;
  // A rank of `wmtp launch` has a pipe, and shares the launcher's controlling terminal.
  const UniqueFd controlling(::open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY));
  const std::size_t columns = controlling ? asked_columns(controlling.get()) : 0;
  return columns > 0 ? columns : kUsualColumns;
}

}  // namespace wmtp::cli
