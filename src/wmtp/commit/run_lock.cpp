#include "wmtp/commit/run_lock.h"

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
#include <optional>
#include <thread>

#include "wmtp/storage/file_system.h"

namespace wmtp::commit {
namespace {

constexpr int kMaxTries = 16;

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

// Between taking the lock and writing its name a holder is nobody; that is soon over.
std::optional<LockHolder> await_holder(int fd) {
  for (int i = 0; i < 50; ++i) {
    if (auto holder = read_holder(fd)) return holder;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::optional<LockHolder>& holder,
                         std::string_view hint) {
  const std::string who =
      holder ? fmt::format("run {} (host {}, pid {})", holder->run_id, holder->host, holder->pid)
             : "another run";
  throw Error(ErrorKind::config, "checkpoint",
              fmt::format("{} uses these checkpoints: {} is locked", who, path.string()), hint);
}

bool is_alive(const LockHolder& holder) {
  return holder.pid > 0 && (::kill(holder.pid, 0) == 0 || errno == EPERM);
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

RunLock::RunLock(const std::filesystem::path& save_dir, std::string_view model,
                 const LockHolder& me, bool force)
    : path_(save_dir / fmt::format("{}.lock", model)) {
  for (int i = 0; i < kMaxTries; ++i)
    if (try_lock(me, force)) return;
  refuse(path_, std::nullopt, "its lock file keeps changing; try again");
}

bool RunLock::try_lock(const LockHolder& me, bool force) {
  file_ =
      storage::Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file_) throw storage::FileError(errno, "open", path_);
  const bool locked = ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0;
  if (!locked && errno != EWOULDBLOCK) throw storage::FileError(errno, "lock", path_);
  const auto holder = locked ? read_holder(file_.get()) : await_holder(file_.get());
  if (!locked) {
    if (!force) refuse(path_, holder, "stop that run first, or save to another folder");
    if (!holder || (holder->host == me.host && is_alive(*holder)))
      refuse(path_, holder, "it is alive: --force-unlock takes over stale locks only");
    ::unlink(path_.c_str());  // held by a host that is gone; start over with a file of our own
    return false;
  }
  if (!same_file(file_.get(), path_)) return false;  // replaced between open and lock
  if (holder && holder->host != me.host && holder->run_id != me.run_id && !force)
    refuse(path_, holder, "if that run is dead, --force-unlock takes its place");
  const std::string line = fmt::format("{} {} {}\n", me.host, me.pid, me.run_id);
  if (::ftruncate(file_.get(), 0) != 0 ||
      ::pwrite(file_.get(), line.data(), line.size(), 0) != static_cast<ssize_t>(line.size()))
    throw storage::FileError(errno, "write", path_);
  return true;
}

RunLock::~RunLock() {
  // The name stays: removing it would let a waiting run lock a file that nobody sees any more.
  if (file_) [[maybe_unused]]
    const int ignored = ::ftruncate(file_.get(), 0);
}

}  // namespace wmtp::commit
