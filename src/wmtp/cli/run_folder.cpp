#include "wmtp/cli/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "wmtp/cli/report.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"

namespace wmtp::cli {
namespace {

using run::FolderOwner;

constexpr int kMaxLooks = 50, kMaxShortLooks = 5;
constexpr std::chrono::milliseconds kLookPause{10};

void make_run_folder(const std::filesystem::path& folder) {
  std::error_code status;
  std::filesystem::create_directories(folder, status);
  if (status)
    throw Error(
        ErrorKind::io, "train",
        fmt::format("cannot create the run folder {}: {}", folder.string(), status.message()),
        "choose another with --run-dir");
}

UniqueFd open_run_folder(const std::filesystem::path& folder) {
  return UniqueFd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// False: another has it. What cannot be locked is nobody's.
bool try_lock_folder(const UniqueFd& folder) {
  return !folder || ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

checkpoint::LockHolder holder_of(const RunFolderRequest& request) {
  checkpoint::LockHolder me = checkpoint::this_process(request.run_id);
  me.job = request.job;
  me.restarts = request.restarts;
  return me;
}

[[noreturn]] void refuse_folder(const RunFolderRequest& request,
                                const std::optional<checkpoint::LockHolder>& holder) {
  throw Error(
      ErrorKind::config, "train",
      fmt::format("{} uses the run folder {}",
                  holder ? checkpoint::describe(*holder) : "another run", request.run_dir.string()),
      "stop that run first, or choose another folder with --run-dir");
}

// Whoever writes down the end of a start that did not get this far holds it for a moment. With
// `force_unlock`, and for a later start of the holder's own job, the lock of the checkpoints alone
// decides: it knows the living from the dead.
void lock_folder(const UniqueFd& folder, const RunFolderRequest& request) {
  for (int look = 0; !try_lock_folder(folder); ++look) {
    if (request.force_unlock) return;
    if (look == kMaxLooks) {
      const auto holder = checkpoint::named_in_lock(request.save_dir, request.model);
      if (holder && checkpoint::is_later_start(holder_of(request), *holder)) return;
      refuse_folder(request, holder);
    }
    std::this_thread::sleep_for(kLookPause);
  }
}

// umask 077 does this for folders that the run makes itself.
void make_private(const UniqueFd& folder, const std::filesystem::path& path) {
  struct stat found {};
  if (!folder || ::fstat(folder.get(), &found) != 0 || (found.st_mode & 077) == 0) return;
  const unsigned mode = found.st_mode & 07777;
  const bool shared = (mode & S_ISVTX) != 0;  // on purpose, as /tmp is
  if (shared || found.st_uid != ::geteuid()) {
    log::warn("train", "the run folder {} is open to others (mode {:o}) and is left so: it is {}",
              path.string(), mode, shared ? "shared on purpose (sticky)" : "another user's");
  } else if (::fchmod(folder.get(), mode & 0700) != 0) {
    log::warn("train", "the run folder {} is open to others (mode {:o}): {}", path.string(), mode,
              std::strerror(errno));
  } else {
    log::info("train", "the run folder {} was open to others (mode {:o}): it is {:o} now",
              path.string(), mode, mode & 0700);
  }
}

}  // namespace

UniqueFd lock_folder_if_free(const std::filesystem::path& run_dir) {
  UniqueFd folder = open_run_folder(run_dir);
  // Other ranks of a start that failed look at it for a moment.
  for (int look = 0; folder && look < kMaxShortLooks; ++look) {
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) == 0) return folder;
    std::this_thread::sleep_for(kLookPause);
  }
  return {};
}

bool is_folder_of_another(const std::filesystem::path& run_dir) {
  const UniqueFd folder = open_run_folder(run_dir);
  return folder && ::flock(folder.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

void require_free(const RunFolderRequest& request) {
  if (request.force_unlock) return;
  const checkpoint::LockHolder me = holder_of(request);
  const auto holder = checkpoint::named_in_lock(request.save_dir, request.model);
  if (holder && checkpoint::is_later_start(me, *holder)) return;
  const bool elsewhere = holder && holder->host != me.host && holder->run_id != me.run_id;
  const auto lock = request.save_dir / fmt::format("{}.lock", request.model);
  const UniqueFd file(::open(lock.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  const bool locked = file && ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (elsewhere || locked || is_folder_of_another(request.run_dir)) refuse_folder(request, holder);
}

std::filesystem::path nearest_existing(std::filesystem::path folder) {
  std::error_code ignored;
  folder = std::filesystem::absolute(folder, ignored);
  while (!std::filesystem::exists(folder, ignored) && folder.has_relative_path())
    folder = folder.parent_path();
  return folder;
}

RunFolder::RunFolder(const RunFolderRequest& request, run::RunProgress& progress) {
  make_run_folder(request.run_dir);
  folder_ = open_run_folder(request.run_dir);
  try {
    lock_folder(folder_, request);
    checkpoints_.emplace(request.save_dir, request.model, holder_of(request), request.force_unlock);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::config) progress.folder = FolderOwner::another;
    throw;
  }
  progress.folder = FolderOwner::this_run;
  heartbeat_.emplace(*checkpoints_);
  make_private(folder_, request.run_dir);
  forget_last_exit(request.run_dir);
}

}  // namespace wmtp::cli
