// Builds a token cache from a data file: streaming, parallel, byte-identical for any number of
// threads.
#pragma once
#include <filesystem>

#include "wmtp/data/index/bad_lines.h"
#include "wmtp/data/index/row_index.h"
#include "wmtp/data/options.h"
#include "wmtp/data/tokens/token_cache.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::data {

struct CacheRequest {
  std::filesystem::path file;
  CacheIdentity identity;
  const tokenizer::Tokenizer* tokenizer = nullptr;  // BORROWS
  const RowIndex* index = nullptr;  // BORROWS; of CacheKind::rows: whose verdict on bad lines holds
  int num_threads = 2;
};

struct CacheReport {
  std::filesystem::path path;
  CacheFacts facts{};
  std::uint64_t source_bytes = 0;
  double seconds = 0;
};

// SHA-256 of the file, remembered beside the cache by size and time so that it is computed once.
Sha256Digest fingerprint_of(const std::filesystem::path& file, const CacheOptions& cache);
std::filesystem::path cache_path(const CacheRequest& request, const CacheOptions& cache);

// Writes `path` whole or not at all. ErrorKind::data by the bad-line policy (documents), or when
// the file no longer agrees with its index.
CacheReport build_cache(const CacheRequest& request, const std::filesystem::path& path);

// Opens the cache of that identity, building it first where missing and `cache.auto_cache` allows;
// otherwise ErrorKind::data naming `wmtp data tokenize`.
TokenCache open_or_build_cache(const CacheRequest& request, const CacheOptions& cache);

void log_cache_report(const std::filesystem::path& file, const CacheReport& report);

}  // namespace wmtp::data
