// Builds <split>.widx from a JSONL file: one pass, parallel, in bounded memory (the table of
// problem ids apart), byte-identical for any number of threads.
#pragma once
#include <filesystem>
#include <optional>

#include "wmtp/data/index/bad_lines.h"
#include "wmtp/data/index/row_index.h"
#include "wmtp/data/index/row_schema.h"
#include "wmtp/data/options.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::data {

struct IndexRequest {
  std::filesystem::path file;
  std::filesystem::path index;                      // what to write
  std::optional<std::filesystem::path> metadata;    // <split>_metadata.json of another tool
  const tokenizer::Tokenizer* tokenizer = nullptr;  // BORROWS; none: no token counts
  BadLinePolicy bad_lines;
  int num_threads = 2;
};

struct IndexReport {
  std::uint64_t num_rows = 0, num_blank = 0, num_problems = 0, source_bytes = 0;
  std::uint64_t suffix_contradictions = 0, difficulty_disagreements = 0;
  BadCounts bad_counts{};
  std::vector<BadLine> first_bad;
  KeyCounts ignored_keys;
  double seconds = 0;
};

// Throws ErrorKind::data by the bad-line policy; nothing is written then.
IndexReport build_index(const IndexRequest& request);

// Whether `request.index` still describes the file under this policy, tokenizer and metadata. Size
// and time as stored: trusted; size equal, time not: the file is hashed, or taken for another.
bool index_is_current(const IndexRequest& request, bool may_hash = true);

// Opens the index, building it first where missing or stale and `cache.auto_cache` allows;
// otherwise ErrorKind::data naming `wmtp data index`. Prints what was found.
RowIndex open_or_build_index(const IndexRequest& request, const CacheOptions& cache);

void log_index_report(const std::filesystem::path& file, const IndexReport& report);

}  // namespace wmtp::data
