#include "wmtp/cli/trial/trial_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "wmtp/cli/run_folder.h"
#include "wmtp/core/error.h"

namespace wmtp::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTrialPrefix = ".wmtp-dry-run-";

// A trial locks its folder a moment after it has made it: those that are younger are let be.
bool is_old(const fs::path& folder) {
  std::error_code status;
  const auto written = fs::last_write_time(folder, status);
  return !status && fs::file_time_type::clock::now() - written > std::chrono::minutes(1);
}

void remove_leftovers(const fs::path& place) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(place, ignored)) {
    if (!entry.path().filename().string().starts_with(kTrialPrefix)) continue;
    if (!entry.is_directory(ignored) || entry.is_symlink(ignored) || !is_old(entry.path()))
      continue;
    if (const UniqueFd free = lock_folder_if_free(entry.path()))
      fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

TrialFolder::TrialFolder(const fs::path& folder, std::string_view key) {
  const fs::path place = nearest_existing(folder);
  remove_leftovers(place);
  std::string name = (place / fmt::format("{}XXXXXX", kTrialPrefix)).string();
  if (::mkdtemp(name.data()) == nullptr)
    throw Error(ErrorKind::io, "train",
                fmt::format("{}: {} cannot be written: no folder can be made in {}: {}", key,
                            folder.string(), place.string(), std::strerror(errno)),
                fmt::format("set {} to a folder that can be written", key));
  path_ = name;
  lock_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock_) [[maybe_unused]]
    const int ignored = ::flock(lock_.get(), LOCK_EX | LOCK_NB);
}

void TrialFolder::remove() noexcept {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace wmtp::cli
