// One rank as a child of the launcher. It leads its own process group, reads /dev/null, writes into
// two pipes, inherits no other descriptor but the read end of the launcher's life line, and gets
// SIGTERM from the kernel when the launcher dies.
#pragma once
#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "wmtp/cli/launcher/numa.h"
#include "wmtp/core/unique_fd.h"

namespace wmtp::cli {

inline constexpr int kLifeLineFd = 3;  // in the child: end of file = the launcher is gone

struct Pipe {
  UniqueFd read, write;
};
// Both ends close-on-exec and above the standard descriptors. Error config names the limit when no
// descriptor is left.
Pipe make_pipe();

struct ChildSpec {
  std::string program;                 // path to execute
  std::vector<std::string> arguments;  // argv, with argv[0]
  std::vector<std::string> environment;
  const Pipe* parent_pipe = nullptr;  // BORROWS; the launcher keeps the write end
  sigset_t signal_mask{};             // as the launcher found it
  std::optional<NumaNode> bind;
};

// OWNS the process: destroying a running child kills its group and waits for it.
class ChildProcess {
 public:
  // REQUIRES the main thread: the kernel's parent-death signal follows the thread that forked.
  explicit ChildProcess(const ChildSpec& spec);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  bool running() const { return running_; }
  void send(int signal) const;  // to the rank alone
  void kill_group() const;      // SIGKILL to the rank and whatever it started
  // The exit code (128 + s for signal s) once the process has ended; it is then reaped and what it
  // left in its group killed.
  std::optional<int> poll_exit();

  UniqueFd out, err;  // read ends of its streams

 private:
  pid_t pid_ = -1;
  bool running_ = false;
};

}  // namespace wmtp::cli
