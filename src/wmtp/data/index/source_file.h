// A data file on disk: its identity, the names of what is derived from it, and who may build that.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/core/checksum.h"
#include "wmtp/core/error.h"
#include "wmtp/core/unique_fd.h"
#include "wmtp/data/options.h"

namespace wmtp::data {

struct FileStamp {
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  bool operator==(const FileStamp&) const = default;
};
FileStamp stamp_of(const std::filesystem::path& path);

// Globs expanded, bytewise sorted; a pattern or path that matches nothing, or a folder, is
// ErrorKind::config.
std::vector<std::filesystem::path> expand_files(const std::vector<std::string>& patterns);

// File name without .jsonl, .json, .txt and without .gz, .zst.
std::string stem_of(const std::filesystem::path& file);
bool is_text_file(const std::filesystem::path& file);  // .txt, possibly compressed

// A derived file is missing or stale, and may not be built. Kind data.
class MissingCache : public Error {
 public:
  MissingCache(std::string_view fact, std::string_view hint)
      : Error(ErrorKind::data, "data", fact, hint) {}
};

// Where derived files of `file` go: cache.cache_dir, else .wmtp-cache beside it, else (not
// writable) cache.fallback_cache_dir. Created if missing, but not by look_only.
std::filesystem::path cache_folder(const std::filesystem::path& file, const CacheOptions& cache);
std::filesystem::path index_path(const std::filesystem::path& file, const CacheOptions& cache);

// One builder at a time: holds <path>.lock, which names host, pid and run. BLOCKS while another
// process holds it.
class BuildLock {
 public:
  BuildLock(const std::filesystem::path& path, const std::string& run_name);
  ~BuildLock();
  BuildLock(const BuildLock&) = delete;
  BuildLock& operator=(const BuildLock&) = delete;

 private:
  std::filesystem::path path_;
  UniqueFd file_;
};

}  // namespace wmtp::data
