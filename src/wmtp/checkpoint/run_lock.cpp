#include "wmtp/checkpoint/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <thread>

#include "wmtp/core/failpoint.h"
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

// "host pid run_id\n"; a torn or strange line is nobody's.
std::optional<LockHolder> read_holder(int fd) {
  std::array<char, 1024> buffer{};
  const ssize_t got = ::pread(fd, buffer.data(), buffer.size(), 0);
  std::string_view line(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  const auto first = line.find(' '), last = line.rfind(' ');
  if (first == line.npos || first == last || !line.ends_with('\n')) return std::nullopt;
  LockHolder holder;
  holder.host = line.substr(0, first);
  const std::string_view pid = line.substr(first + 1, last - first - 1);
  std::from_chars(pid.data(), pid.data() + pid.size(), holder.pid);
  holder.run_id = line.substr(last + 1, line.size() - last - 2);
  return holder;
}

[[noreturn]] void refuse_lock(const std::filesystem::path& path,
                              const std::optional<LockHolder>& holder, std::string_view hint) {
  const std::string who =
      holder ? fmt::format("run {} (host {}, pid {})", holder->run_id, holder->host, holder->pid)
             : "another run";
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

std::optional<LockHolder> named_in_lock(const std::filesystem::path& save_dir,
                                        std::string_view model) {
  const UniqueFd file(
      ::open(lock_path(save_dir, model).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return file ? read_holder(file.get()) : std::nullopt;
}

RunLock::RunLock(const std::filesystem::path& save_dir, std::string_view model,
                 const LockHolder& me, bool force)
    : path_(lock_path(save_dir, model)) {
  make_folder(save_dir);
  const UniqueFd turn = take_turn(save_dir / fmt::format(".{}.lock.turn", model));
  for (int i = 0; i < kMaxTries; ++i) {
    if (try_lock(me, force)) return;
    std::this_thread::sleep_for(kPause);
  }
  refuse_lock(path_, std::nullopt, "it names no holder: if no run saves here, remove that file");
}

bool RunLock::try_lock(const LockHolder& me, bool force) {
  file_ = open_file(path_);
  const bool locked = try_flock(file_, path_);
  const auto holder = read_holder(file_.get());
  if (!locked) {
    if (!holder) return false;  // it is letting go
    if (!force) refuse_lock(path_, holder, "stop that run first, or save to another folder");
    if (holder->host == me.host && is_alive(*holder))
      refuse_lock(path_, holder, "it is alive: --force-unlock takes over stale locks only");
    failpoint::pass("lock.break");
    // Held by a host that is gone; start over with a file of our own.
    if (same_file(file_.get(), path_)) ::unlink(path_.c_str());
    return false;
  }
  if (!same_file(file_.get(), path_)) return false;  // removed between open and lock
  if (holder && holder->host != me.host && holder->run_id != me.run_id && !force)
    refuse_lock(path_, holder, "if that run is dead, --force-unlock takes its place");
  const std::string line = fmt::format("{} {} {}\n", me.host, me.pid, me.run_id);
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

}  // namespace wmtp::checkpoint
