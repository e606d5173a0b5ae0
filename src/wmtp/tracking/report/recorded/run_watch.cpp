#include "wmtp/tracking/report/recorded/run_watch.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "wmtp/core/error.h"
#include "wmtp/tracking/run_files.h"

namespace wmtp::tracking {
namespace {

constexpr std::array kReadFiles{kMetricsFile,     kConfigFile,  kSamplesFile, kHistogramsFile,
                                kEnvironmentFile, kSummaryFile, kStartsFile,  kLastExitFile};

// Changes whenever the file is written or replaced; "" where there is none.
std::string stamp_of(const std::filesystem::path& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return "";
  return fmt::format("{}:{}:{}.{}", found.st_ino, found.st_size, found.st_mtim.tv_sec,
                     found.st_mtim.tv_nsec);
}

std::string stamp_of_locks(const std::filesystem::path& folder) {
  std::vector<std::string> stamps;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "checkpoints", ignored))
    if (entry.path().extension() == ".lock") stamps.push_back(stamp_of(entry.path()));
  std::sort(stamps.begin(), stamps.end());
  std::string all;
  for (const std::string& stamp : stamps) all += stamp + ";";
  return all;
}

}  // namespace

bool RunWatch::look(Clock::time_point now) {
  std::string stamps;
  for (const char* name : kReadFiles) stamps += stamp_of(folder_ / name) + ";";
  std::string heartbeat = stamp_of_locks(folder_);
  const bool changed = stamps != seen_;
  if (changed || heartbeat != heartbeat_) alive_ = now;
  seen_ = std::move(stamps);
  heartbeat_ = std::move(heartbeat);
  return changed;
}

bool RunWatch::is_gone(Clock::time_point now) const {
  return !heartbeat_.empty() && now - alive_ > kSilenceLimit;
}

bool RunWatch::has_last_word() const {
  std::error_code ignored;
  return std::filesystem::exists(folder_ / kLastExitFile, ignored);
}

void require_own_files(const std::filesystem::path& folder) {
  std::error_code ignored;
  const auto own = std::filesystem::weakly_canonical(folder, ignored);
  for (const char* name : kReadFiles) {
    const auto path = folder / name;
    if (!std::filesystem::is_symlink(path, ignored)) continue;
    const auto real = std::filesystem::weakly_canonical(path, ignored);
    if (real.parent_path() != own)
      throw Error(
          ErrorKind::data, "report",
          fmt::format("{} is a link to {}, outside its run folder", path.string(), real.string()),
          "only files of the runs that are named are served");
  }
}

}  // namespace wmtp::tracking
