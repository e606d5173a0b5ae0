#include "wmtp/checkpoint/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <utility>

#include "wmtp/core/failpoint.h"
#include "wmtp/core/log.h"
#include "wmtp/core/printable.h"
#include "wmtp/core/time.h"
#include "wmtp/storage/file_system.h"

namespace wmtp::checkpoint {
namespace {

constexpr int kMaxTries = 50;
constexpr std::chrono::milliseconds kPause{10};
constexpr std::chrono::seconds kTurnPatience{30};

std::filesystem::path lock_path(const std::filesystem::path& save_dir, std::string_view model) {
  return save_dir / fmt::format("{}.lock", model);
}

constexpr std::size_t kMaxJobBytes = 200;

// One word of the line, which is taken off it.
std::string_view take_word(std::string_view& rest) {
  const std::string_view word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  return word;
}

int number_in(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// The id as it stands in the line, which ends with it: of one line, and not endless.
std::string job_in_line(std::string_view job) {
  std::string text = escape_control(job.substr(0, kMaxJobBytes));
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string line_of(const LockHolder& holder) {
  std::string line = fmt::format("{} {} {}", holder.host, holder.pid, holder.run_id);
  if (!holder.job.empty())
    line += fmt::format(" {}.{} {}", holder.restarts.job, holder.restarts.ranks,
                        job_in_line(holder.job));
  return line + "\n";
}

// "host pid run_id\n" or "host pid run_id 1.0 job\n"; a torn or strange line is nobody's.
std::optional<LockHolder> read_holder(int fd) {
  std::array<char, 1024> buffer{};
  const ssize_t got = ::pread(fd, buffer.data(), buffer.size(), 0);
  std::string_view line(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  if (!line.ends_with('\n') || std::count(line.begin(), line.end(), ' ') < 2) return std::nullopt;
  line.remove_suffix(1);
  LockHolder holder;
  holder.host = take_word(line);
  holder.pid = number_in(take_word(line));
  holder.run_id = take_word(line);
  const std::string_view restarts = take_word(line);
  const std::size_t dot = std::min(restarts.find('.'), restarts.size());
  holder.restarts = {number_in(restarts.substr(0, dot)),
                     number_in(restarts.substr(std::min(dot + 1, restarts.size())))};
  holder.job = line;
  return holder;
}

[[noreturn]] void refuse_lock(const std::filesystem::path& path,
                              const std::optional<LockHolder>& holder, std::string_view hint) {
  const std::string who = holder ? describe(*holder) : "another run";
  throw Error(ErrorKind::config, "checkpoint",
              fmt::format("{} uses these checkpoints: {} is locked", who, path.string()), hint);
}

bool is_alive(const LockHolder& holder) {
  return holder.pid > 0 && (::kill(holder.pid, 0) == 0 || errno == EPERM);
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code status;
  std::filesystem::create_directories(folder, status);
  if (status)
    throw Error(ErrorKind::io, "checkpoint",
                fmt::format("cannot create {}: {}", folder.string(), status.message()),
                "set checkpoint.save_dir to a folder that can be written");
}

UniqueFd open_file(const std::filesystem::path& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) throw storage::FileError(errno, "open", path);
  return file;
}

bool try_flock(const UniqueFd& file, const std::filesystem::path& path) {
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return true;
  if (errno != EWOULDBLOCK) throw storage::FileError(errno, "lock", path);
  return false;
}

// One start at a time looks at the lock and takes or breaks it, until the descriptor closes.
// Otherwise the second of two that break the same stale lock would remove the file that the first
// has just made, or one whose new holder has not written its name yet.
UniqueFd take_turn(const std::filesystem::path& path) {
  UniqueFd file = open_file(path);
  const auto begun = Clock::now();
  while (!try_flock(file, path)) {
    if (Clock::now() - begun > kTurnPatience)
      throw Error(ErrorKind::config, "checkpoint",
                  fmt::format("another start has kept {} locked for {} s", path.string(),
                              kTurnPatience.count()),
                  "if no other run is starting here, remove that file");
    std::this_thread::sleep_for(kPause);
  }
  return file;
}

bool is_same_job(const LockHolder& me, const LockHolder& holder) {
  return !me.job.empty() && job_in_line(me.job) == holder.job;
}

// By two times that the file system itself has set: the clocks of hosts differ.
double heartbeat_age_s(int lock_fd, const std::filesystem::path& touched) {
  struct stat beat {
  }, now{};
  if (::utimensat(AT_FDCWD, touched.c_str(), nullptr, 0) != 0 ||
      ::stat(touched.c_str(), &now) != 0 || ::fstat(lock_fd, &beat) != 0)
    return 0;
  return static_cast<double>(now.st_mtim.tv_sec - beat.st_mtim.tv_sec) +
         static_cast<double>(now.st_mtim.tv_nsec - beat.st_mtim.tv_nsec) * 1e-9;
}

bool same_file(int fd, const std::filesystem::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

LockHolder this_process(std::string run_id) {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {'?'};
  return {host.data(), ::getpid(), std::move(run_id)};
}

std::string describe(const LockHolder& holder) {
  return fmt::format("run {} (host {}, pid {}{})", holder.run_id, holder.host, holder.pid,
                     holder.job.empty() ? "" : ", job " + holder.job);
}

bool is_later_start(const LockHolder& me, const LockHolder& holder) {
  return holder.host != me.host && is_same_job(me, holder) && me.restarts > holder.restarts;
}

std::optional<LockHolder> named_in_lock(const std::filesystem::path& save_dir,
                                        std::string_view model) {
  const UniqueFd file(
      ::open(lock_path(save_dir, model).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return file ? read_holder(file.get()) : std::nullopt;
}

RunLock::RunLock(const std::filesystem::path& save_dir, std::string_view model,
                 const LockHolder& me, bool force, std::chrono::milliseconds heartbeat_limit)
    : path_(lock_path(save_dir, model)),
      turn_path_(save_dir / fmt::format(".{}.lock.turn", model)),
      heartbeat_limit_(heartbeat_limit) {
  make_folder(save_dir);
  const UniqueFd turn = take_turn(turn_path_);
  for (int i = 0; i < kMaxTries; ++i) {
    if (try_lock(me, force)) return;
    std::this_thread::sleep_for(kPause);
  }
  refuse_lock(path_, std::nullopt, "it names no holder: if no run saves here, remove that file");
}

// A holder that is gone since its last beat has the limit before it counts as gone; one that beats
// on is refused after a little more.
void RunLock::wait_for_end_of_heartbeat(const LockHolder& holder) const {
  constexpr std::chrono::milliseconds kLook{100};
  const auto begun = Clock::now();
  const auto limit_s = std::chrono::duration<double>(heartbeat_limit_).count();
  bool told = false;
  while (true) {
    // Opened anew each time: so network file systems ask their server.
    const UniqueFd now = open_file(path_);
    if (!read_holder(now.get())) return;  // it has let go
    if (heartbeat_age_s(now.get(), turn_path_) > limit_s) return;
    if (seconds_since(begun) > 1.5 * limit_s)
      refuse_lock(path_, holder, "its heartbeat goes on: stop that start of the job first");
    if (!std::exchange(told, true))
      log::info("checkpoint", "waiting until the heartbeat of {} is {:.0f} s old", describe(holder),
                limit_s);
    std::this_thread::sleep_for(kLook);
  }
}

bool RunLock::try_lock(const LockHolder& me, bool force) {
  file_ = open_file(path_);
  const bool locked = try_flock(file_, path_);
  const auto holder = read_holder(file_.get());
  if (!locked) {
    if (!holder) return false;  // it is letting go
    const bool later = is_later_start(me, *holder);
    if (!force && !later)
      refuse_lock(path_, holder, "stop that run first, or save to another folder");
    if (!force) wait_for_end_of_heartbeat(*holder);
    if (holder->host == me.host && is_alive(*holder))
      refuse_lock(path_, holder, "it is alive: --force-unlock takes over stale locks only");
    failpoint::pass("lock.break");
    // Held by a host that is gone; start over with a file of our own.
    if (same_file(file_.get(), path_)) ::unlink(path_.c_str());
    return false;
  }
  if (!same_file(file_.get(), path_)) return false;  // removed between open and lock
  if (holder && holder->host != me.host && !force) {
    const bool same = holder->run_id == me.run_id ||
                      (is_same_job(me, *holder) && me.restarts >= holder->restarts);
    if (!same) refuse_lock(path_, holder, "if that run is dead, --force-unlock takes its place");
    wait_for_end_of_heartbeat(*holder);
  }
  const std::string line = line_of(me);
  int code = ::ftruncate(file_.get(), 0) == 0
                 ? failpoint::error_number(failpoint::pass("lock.write"))
                 : errno;
  if (code == 0 && ::pwrite(file_.get(), line.data(), line.size(), 0) < 0) code = errno;
  // A full disk has no room for the name, and `prune` is what makes room: the lock itself holds.
  if (code != 0 && code != ENOSPC && code != EDQUOT) throw storage::FileError(code, "write", path_);
  return true;
}

RunLock::~RunLock() {
  // The name stays: removing it would let a waiting run lock a file that nobody sees any more.
  if (file_) [[maybe_unused]]
    const int ignored = ::ftruncate(file_.get(), 0);
}

LockHeartbeat::LockHeartbeat(const RunLock& lock, std::chrono::milliseconds interval)
    : thread_([this, fd = lock.fd(), interval] {
        std::unique_lock guard(mutex_);
        while (!ending_changed_.wait_for(guard, interval, [this] { return ending_; }))
          ::futimens(fd, nullptr);
      }) {}

LockHeartbeat::~LockHeartbeat() {
  {
    const std::lock_guard guard(mutex_);
    ending_ = true;
  }
  ending_changed_.notify_all();
  thread_.join();
}

}  // namespace wmtp::checkpoint
