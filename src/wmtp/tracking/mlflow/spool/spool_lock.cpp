#include "wmtp/tracking/mlflow/spool/spool_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "wmtp/storage/file_system.h"

namespace wmtp::tracking::mlflow {
namespace {

void make_private_folders(const std::filesystem::path& folder) {
  if (folder.empty() || ::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return;
  if (errno != ENOENT) throw storage::FileError(errno, "create folder", folder);
  make_private_folders(folder.parent_path());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw storage::FileError(errno, "create folder", folder);
}

}  // namespace

std::optional<SpoolLock> SpoolLock::take(const std::filesystem::path& folder) {
  make_private_folders(folder);
  // The run's folder itself must not be a link: where it leads may be anybody's.
  const UniqueFd place(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!place) throw storage::FileError(errno, "open", folder);
  UniqueFd file(
      ::openat(place.get(), "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!file) throw storage::FileError(errno, "open", folder / "lock");
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return SpoolLock(std::move(file));
  if (errno != EWOULDBLOCK) throw storage::FileError(errno, "lock", folder / "lock");
  return std::nullopt;
}

}  // namespace wmtp::tracking::mlflow
