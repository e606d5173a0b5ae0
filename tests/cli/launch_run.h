// A launcher under test: supervise() in a process of its own, its ranks being shell scripts.
#pragma once
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/temp_dir.h"
#include "wmtp/cli/launcher/launch_options.h"

namespace wmtp::test {

bool process_exists(pid_t pid);
std::vector<std::string> lines_of(const std::string& text);
// Waits until `text` stands in the file, at most 10 s; false if it never does.
bool wait_for_text(const std::filesystem::path& file, const std::string& text);

class LaunchRun {
 public:
  // The script sees $RANK and, as $DIR, a folder of this run.
  // `prepare` runs in the launcher's process before it starts.
  LaunchRun(std::string script, cli::LaunchOptions options,
            const std::function<void()>& prepare = {});
  ~LaunchRun();

  void signal(int number) const { ::kill(pid_, number); }
  int wait();  // the launcher's exit code, 128 + s for death by signal s
  pid_t pid() const { return pid_; }
  std::string out() const { return slurp(dir_ / "out"); }
  std::string err() const { return slurp(dir_ / "err"); }
  std::filesystem::path file(const std::string& name) const { return dir_ / name; }
  int num_starts() const;  // ranks started; scripts begin by noting their pid
  std::vector<pid_t> ranks_left() const;

 private:
  TempDir dir_;
  pid_t pid_ = -1;
  bool waited_ = false;
};

}  // namespace wmtp::test
