// A run of the commit engine as a process of its own, and the oracle that watches it from outside:
// the run acknowledges each committed step on a pipe, the parent, whom no fault touches, remembers.
#pragma once
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <vector>

#include "checkpoint/tiny_state.h"
#include "wmtp/checkpoint/format/folder.h"
#include "wmtp/checkpoint/format/pointer.h"
#include "wmtp/checkpoint/load/load.h"
#include "wmtp/checkpoint/run_lock.h"
#include "wmtp/checkpoint/save/retention.h"
#include "wmtp/core/failpoint.h"
#include "wmtp/core/log.h"

namespace wmtp::checkpoint::life {

struct Life {
  std::filesystem::path save_dir;
  std::int64_t num_steps = 3;
  std::string run_id = "run", attempt = "0";
  int num_threads = 1;                        // ranks within this process
  int rank = 0, world_size = 1;               // of a process that is one rank
  std::filesystem::path vote_dir = {};        // where ranks are processes
  std::chrono::milliseconds timeout{60'000};  // of the votes
  std::string failpoints = {};
  std::filesystem::path failpoint_log = {};
  int ack_fd = -1;
};

enum ExitCode : int { kDone = 0, kWrongState = 3, kNoStorage = 74, kRefused = 78, kLost = 75 };

// One rank: choose, check what was loaded, save step after step. Failed saves are survived, as in
// training.
inline void live_as(const Life& life, storage::FileSystem& files, KvExchange& vote, int rank,
                    int world_size) {
  const auto choice = choose_checkpoint({.files = files,
                                         .vote = vote,
                                         .save_dir = life.save_dir,
                                         .model = tiny::kModel,
                                         .rank = rank,
                                         .world_size = world_size,
                                         .attempt = life.attempt,
                                         .timeout = life.timeout,
                                         .read_pause = std::chrono::milliseconds(1)});
  const std::int64_t step = choice ? choice->step : 0;
  if (choice && rank == 0 && !tiny::fault_of(files, life.save_dir / choice->name, step).empty())
    ::_exit(kWrongState);
  Saver saver({.files = files,
               .vote = vote,
               .save_dir = life.save_dir,
               .model = tiny::kModel,
               .run_id = life.run_id,
               .rank = rank,
               .world_size = world_size,
               .attempt = life.attempt,
               .timeout = life.timeout});
  for (std::int64_t next = step + 1; next <= step + life.num_steps; ++next) try {
      tiny::RankState state(next, rank, world_size);
      const SaveReport report = saver.save(state.request());
      if (rank != 0) continue;
      const std::string line = fmt::format("{}\n", next);
      if (::write(life.ack_fd, line.data(), line.size()) < 0) ::_exit(1);
      write_pointer(files, life.save_dir, tiny::kModel, Pointer::latest, report.name);
      apply_retention(files, life.save_dir, tiny::kModel, {.keep = 3});
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::comm) throw;  // a rank is gone
    }
}

// Ends the process.
[[noreturn]] inline void live(const Life& life) {
  try {
    log::configure({.level = log::Level::error});
    failpoint::configure(
        {.spec = life.failpoints, .rank = life.rank, .log_path = life.failpoint_log});
    storage::LocalFileSystem files;
    std::optional<RunLock> lock;
    if (life.rank == 0) {
      lock.emplace(life.save_dir, tiny::kModel, this_process(life.run_id));
      clear_leftovers(files, life.save_dir, tiny::kModel);
    }
    if (!life.vote_dir.empty()) {
      FileExchange vote(life.vote_dir);
      live_as(life, files, vote, life.rank, life.world_size);
      ::_exit(kDone);
    }
    LocalExchange vote;
    std::vector<std::thread> others;
    for (int rank = 1; rank < life.num_threads; ++rank)
      others.emplace_back([&, rank] {
        try {
          live_as(life, files, vote, rank, life.num_threads);
        } catch (const Error&) {
          ::_exit(kLost);
        }
      });
    live_as(life, files, vote, 0, life.num_threads);
    for (std::thread& other : others) other.join();
    ::_exit(kDone);
  } catch (const Error& error) {
    ::_exit(static_cast<int>(exit_code(error.kind())));
  }
}

// A child process that lives the life; its acknowledgements are read when it has ended.
class Child {
 public:
  explicit Child(Life life) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    life.ack_fd = ends[1];
    pid_ = ::fork();
    if (pid_ == 0) live(life);
    ::close(ends[1]);
    acks_ = ends[0];
  }
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), acks_(std::exchange(other.acks_, -1)) {}
  ~Child() {
    if (acks_ >= 0) ::close(acks_);
  }

  pid_t pid() const { return pid_; }
  void kill() const { ::kill(pid_, SIGKILL); }
  int wait() {  // exit code, 128 + signal when killed
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return code_of(status);
  }
  std::optional<int> try_wait() {
    int status = 0;
    return ::waitpid(pid_, &status, WNOHANG) == pid_ ? std::optional(code_of(status))
                                                     : std::nullopt;
  }
  std::vector<std::int64_t> acknowledged() const {
    std::string text;
    std::array<char, 4096> buffer{};
    for (ssize_t got = 0; (got = ::read(acks_, buffer.data(), buffer.size())) > 0;)
      text.append(buffer.data(), static_cast<std::size_t>(got));
    std::vector<std::int64_t> steps;
    for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
      steps.push_back(std::stoll(text.substr(at)));
    return steps;
  }

 private:
  static int code_of(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  pid_t pid_ = -1;
  int acks_ = -1;
};

// What a folder must look like at any moment, seen from outside. `newest` is the newest step
// acknowledged so far. "" or the broken promise.
inline std::string broken_promise(const std::filesystem::path& save_dir, std::int64_t newest) {
  const storage::LocalFileSystem files;
  const auto found = find_checkpoints(files, save_dir, tiny::kModel);
  if (newest > 0 && (found.empty() || found[0].step < newest))
    return fmt::format("step {} was acknowledged and is gone", newest);
  for (const FoundCheckpoint& one : found)
    if (std::string fault = tiny::fault_of(files, save_dir / one.name, one.step); !fault.empty())
      return fault;
  if (newest > 1 && found.size() < 2) return "fewer than two are left";
  for (const auto& entry : files.list(save_dir))
    if (entry.name.find(".bad-") != entry.name.npos) return entry.name + " was set aside";
  return "";
}

#ifdef WMTP_FAILPOINTS
// What saving, retention and loading pass in such a life: all but what a trainer passes before it
// asks the engine.
inline std::vector<failpoint::Point> engine_points() {
  std::vector<failpoint::Point> points;
  for (const failpoint::Point& point : failpoint::points())
    for (const std::string_view prefix : {"save.", "retain.", "load."})
      if (point.name.starts_with(prefix) && point.name != "save.stage.memory")
        points.push_back(point);
  return points;
}

inline bool can(const failpoint::Point& point, failpoint::Action action) {
  return point.actions & (1 << static_cast<int>(action));
}
#endif

// In memory where the system has such a folder: a kill loses nothing that fsync would save, and
// fsync of a disk would be all that is measured.
inline void use_fast_temp_dir() {
  if (::access("/dev/shm", W_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 1);
}

}  // namespace wmtp::checkpoint::life
