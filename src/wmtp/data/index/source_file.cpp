#include "wmtp/data/index/source_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <glob.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/core/suggest.h"

namespace wmtp::data {
namespace fs = std::filesystem;

FileStamp stamp_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw Error(ErrorKind::io, "data",
                fmt::format("cannot read {}: {}", path.string(), std::strerror(errno)));
  return {static_cast<std::uint64_t>(status.st_size),
          std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

std::vector<fs::path> expand_files(const std::vector<std::string>& patterns) {
  std::vector<fs::path> files;
  for (const std::string& pattern : patterns) {
    if (fs::exists(pattern)) {
      files.emplace_back(pattern);
      continue;
    }
    glob_t matches{};
    if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches) != 0 || matches.gl_pathc == 0) {
      ::globfree(&matches);
      throw Error(ErrorKind::config, "data", fmt::format("{}: no such file", pattern),
                  missing_path_hint(pattern));
    }
    std::vector<std::string> names(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
    ::globfree(&matches);
    std::sort(names.begin(), names.end());
    files.insert(files.end(), names.begin(), names.end());
  }
  for (const fs::path& file : files)
    if (fs::is_directory(file))
      throw Error(ErrorKind::config, "data", fmt::format("{} is a folder", file.string()),
                  "name the files in it");
  return files;
}

std::string stem_of(const fs::path& file) {
  std::string name = file.filename().string();
  for (std::string_view ending : {".gz", ".zst"})
    if (name.ends_with(ending)) name.erase(name.size() - ending.size());
  for (std::string_view ending : {".jsonl", ".json", ".txt", ".wtok"})
    if (name.ends_with(ending)) name.erase(name.size() - ending.size());
  return name;
}

bool is_text_file(const fs::path& file) {
  std::string name = file.filename().string();
  for (std::string_view ending : {".gz", ".zst"})
    if (name.ends_with(ending)) name.erase(name.size() - ending.size());
  return name.ends_with(".txt");
}

namespace {

bool usable(const fs::path& folder, bool create = true) {
  std::error_code error;
  if (create) fs::create_directories(folder, error);
  return fs::is_directory(folder, error) && ::access(folder.c_str(), W_OK) == 0;
}

}  // namespace

fs::path cache_folder(const fs::path& file, const CacheOptions& cache) {
  const fs::path first =
      cache.cache_dir.empty() ? file.parent_path() / ".wmtp-cache" : cache.cache_dir;
  if (cache.look_only)
    return usable(first, false) || !usable(cache.fallback_cache_dir, false)
               ? first
               : cache.fallback_cache_dir;
  if (usable(first)) return first;
  if (!cache.auto_cache && fs::is_directory(first)) return first;  // read only, and only read
  if (!cache.fallback_cache_dir.empty() && usable(cache.fallback_cache_dir))
    return cache.fallback_cache_dir;
  throw Error(ErrorKind::io, "data", fmt::format("cannot write to {}", first.string()),
              "set dataset.cache_dir to a folder that can be written");
}

fs::path index_path(const fs::path& file, const CacheOptions& cache) {
  const fs::path beside = file.parent_path() / (stem_of(file) + ".widx");
  if (fs::exists(beside)) return beside;
  // Files of one name from several folders may share a cache folder.
  const std::string key = sha256_hex(fs::absolute(file).lexically_normal().string()).substr(0, 8);
  return cache_folder(file, cache) / fmt::format("{}-{}.widx", stem_of(file), key);
}

BuildLock::BuildLock(const fs::path& path, const std::string& run_name)
    : path_(path.string() + ".lock") {
  for (;;) {
    file_ = UniqueFd(::open(path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    if (!file_)
      throw Error(ErrorKind::io, "data",
                  fmt::format("cannot create {}: {}", path_.string(), std::strerror(errno)));
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
      log::info("data", "waiting for {}, which another process is building", path.string());
      while (::flock(file_.get(), LOCK_EX) != 0 && errno == EINTR) {
      }
    }
    // The holder removes the file before letting go: what we locked may be gone by now.
    struct stat mine {
    }, current{};
    if (::fstat(file_.get(), &mine) == 0 && ::stat(path_.c_str(), &current) == 0 &&
        mine.st_ino == current.st_ino)
      break;
  }
  char host[256] = {};
  ::gethostname(host, sizeof(host) - 1);
  const std::string text = fmt::format("host {} pid {} run {}\n", host, ::getpid(), run_name);
  if (::ftruncate(file_.get(), 0) != 0 || ::pwrite(file_.get(), text.data(), text.size(), 0) < 0)
    log::debug("data", "lock file {} could not be labelled", path_.string());
}

BuildLock::~BuildLock() {
  ::unlink(path_.c_str());
}

}  // namespace wmtp::data
