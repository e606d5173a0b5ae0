#include "wmtp/cli/launcher/shared_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "wmtp/core/error.h"

namespace wmtp::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "wmtp-ranks-";

UniqueFd open_folder(const fs::path& folder) {
  return UniqueFd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool is_private(int fd) {
  struct stat found {};
  return ::fstat(fd, &found) == 0 && found.st_uid == ::geteuid() && (found.st_mode & 077) == 0;
}

void remove_if_abandoned(const fs::path& folder) {
  const UniqueFd fd = open_folder(folder);
  if (!fd || !is_private(fd.get()) || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return;
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

}  // namespace

UniqueFd hold_folder(const fs::path& folder) {
  UniqueFd fd = open_folder(folder);
  if (fd && ::flock(fd.get(), LOCK_SH) == 0) return fd;
  return {};
}

PrivateFolder::PrivateFolder() {
  constexpr int kTries = 16;
  for (int i = 0; i < kTries; ++i) {
    std::string pattern = (fs::temp_directory_path() / fmt::format("{}XXXXXX", kPrefix)).string();
    if (!::mkdtemp(pattern.data()))
      throw Error(
          ErrorKind::io, "launch",
          fmt::format("cannot create a private folder {}: {}", pattern, std::strerror(errno)),
          "point TMPDIR to a folder you may write");
    path_ = pattern;
    hold_ = hold_folder(path_);
    // Another launcher may have taken it for abandoned before it was held.
    std::error_code ignored;
    if (fs::exists(path_, ignored)) return;
  }
  throw Error(ErrorKind::io, "launch",
              fmt::format("new folders in {} vanish at once", path_.parent_path().string()));
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void clear_abandoned_folders() noexcept try {
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path()))
    if (entry.path().filename().string().starts_with(kPrefix)) remove_if_abandoned(entry.path());
} catch (const std::exception&) {  // another's temporary folder is no reason not to start
}

}  // namespace wmtp::cli
