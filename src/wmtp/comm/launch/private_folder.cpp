#include "wmtp/comm/launch/private_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "wmtp/core/error.h"
#include "wmtp/core/file.h"

namespace wmtp::comm {
namespace {

// Field 22 of /proc/<pid>/stat; the fields are counted after the name, which may hold anything.
std::string start_time(pid_t pid) {
  const std::string text = read_file(fmt::format("/proc/{}/stat", pid), 64 << 10);
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return field;
}

}  // namespace

void make_private_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::create_directories(folder.parent_path(), ignored);
  if (::mkdir(folder.c_str(), 0700) == 0) return;
  struct stat found {};
  if (errno != EEXIST || ::lstat(folder.c_str(), &found) != 0)
    throw Error(
        ErrorKind::config, "comm",
        fmt::format("cannot make the folder {}: {}", folder.string(), std::strerror(errno)));
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::geteuid() ||
      (found.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    throw Error(ErrorKind::config, "comm",
                fmt::format("{} is not a folder that only you can write to", folder.string()),
                "ranks meet in a private folder: chmod 700 it, or name another");
}

std::filesystem::path folder_of_parent() {
  const pid_t parent = ::getppid();
  return std::filesystem::temp_directory_path() /
         fmt::format("wmtp-{}-{}-{}", ::geteuid(), parent, start_time(parent));
}

}  // namespace wmtp::comm
