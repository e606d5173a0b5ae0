// Signals as readable events: while this object lives, the launcher's signals are blocked and wait
// in a descriptor that poll() can watch. A hang-up ignored by nohup stays ignored.
#pragma once
#include <signal.h>

#include <vector>

#include "wmtp/core/unique_fd.h"

namespace wmtp::cli {

class SignalFd {
 public:
  SignalFd();
  ~SignalFd();
  SignalFd(const SignalFd&) = delete;
  SignalFd& operator=(const SignalFd&) = delete;

  int fd() const { return fd_.get(); }
  const sigset_t& previous_mask() const { return previous_; }
  std::vector<int> take();  // all that are waiting, SIGCHLD included

 private:
  UniqueFd fd_;
  sigset_t previous_{};
};

}  // namespace wmtp::cli
