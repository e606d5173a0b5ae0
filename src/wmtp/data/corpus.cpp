#include "wmtp/data/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/data/file_format.h"
#include "wmtp/data/index/index_builder.h"
#include "wmtp/data/index/source_file.h"
#include "wmtp/data/tokens/cache_builder.h"

namespace wmtp::data {

Corpus::Corpus(const DatasetOptions& options, const tokenizer::Tokenizer& tokenizer,
               bool need_token_counts)
    : options_(options), tokenizer_fingerprint_(tokenizer.fingerprint()) {
  const auto paths = expand_files(options.files);
  if (paths.empty()) throw Error(ErrorKind::config, "data", "no data files are named");
  if (!options.metadata.empty() && options.metadata.size() != paths.size())
    throw Error(
        ErrorKind::config, "data",
        fmt::format("{} metadata files for {} data files", options.metadata.size(), paths.size()));
  for (std::size_t i = 0; i < paths.size(); ++i)
    open_file(paths[i], i, tokenizer, need_token_counts);
  Sha256 fingerprints;
  for (const auto& file : files_)
    fingerprints.update(std::as_bytes(std::span(file->cache.facts().data_fingerprint)));
  data_fingerprint_ = to_hex(fingerprints.finish());
  make_table();
}

void Corpus::open_file(const std::filesystem::path& path, std::size_t ordinal,
                       const tokenizer::Tokenizer& tokenizer, bool need_token_counts) {
  const Format format = format_of(path, options_);
  if (format_ != Format::automatic && format != format_)
    throw Error(ErrorKind::config, "data",
                fmt::format("{} is of another format than the files before it", path.string()));
  format_ = format;
  std::unique_ptr<File> file;
  if (format == Format::tokens) {
    file = std::make_unique<File>(File{path, std::nullopt, open_given_cache(path, tokenizer)});
  } else {
    std::optional<RowIndex> index;
    if (format == Format::instruct) {
      IndexRequest request;
      request.file = path;
      request.index = index_path(path, options_.cache);
      if (!options_.metadata.empty()) request.metadata = options_.metadata[ordinal];
      request.tokenizer = need_token_counts && !request.metadata ? &tokenizer : nullptr;
      request.bad_lines = options_.bad_lines;
      request.num_threads = options_.cache.num_threads;
      CacheOptions cache = options_.cache;
      cache.force = false;
      index = open_or_build_index(request, cache);
    }
    CacheRequest request;
    request.file = path;
    request.identity = {format == Format::text ? CacheKind::documents : CacheKind::rows,
                        tokenizer.fingerprint(),
                        {},
                        options_.encode,
                        options_.text,
                        options_.bad_lines};
    if (index)
      std::copy_n(index->facts().data_fingerprint, 32, request.identity.data_fingerprint.begin());
    else
      request.identity.data_fingerprint = fingerprint_of(path, options_.cache);
    request.tokenizer = &tokenizer;
    request.index = index ? &*index : nullptr;
    request.num_threads = options_.cache.num_threads;
    TokenCache cache = open_or_build_cache(request, options_.cache);
    if (index && index->num_rows() != cache.num_rows())
      throw Error(ErrorKind::data, "data",
                  fmt::format("{} and {} do not belong together", index->path().string(),
                              cache.path().string()),
                  cache_format().rebuild_hint);
    file = std::make_unique<File>(File{path, std::move(index), std::move(cache)});
  }
  file->first_row = num_rows_;
  num_rows_ += file->cache.num_rows();
  files_.push_back(std::move(file));
}

TokenCache Corpus::open_given_cache(const std::filesystem::path& path,
                                    const tokenizer::Tokenizer& tokenizer) const {
  TokenCache cache = TokenCache::open(path);
  const Sha256Digest wanted = sha256(tokenizer.fingerprint());
  if (!std::equal(wanted.begin(), wanted.end(), cache.facts().tokenizer_fingerprint))
    throw Error(ErrorKind::config, "data",
                fmt::format("{} was made with another tokenizer", path.string()),
                "set models.policy.tokenizer_path, or make the cache again");
  return cache;
}

std::uint64_t Corpus::num_tokens() const {
  std::uint64_t total = 0;
  for (const auto& file : files_) total += file->cache.num_tokens();
  return total;
}

const Corpus::File& Corpus::file_of(std::uint32_t row) const {
  if (files_.size() == 1) return *files_.front();
  const auto after =
      std::upper_bound(files_.begin(), files_.end(), row,
                       [](std::uint32_t r, const auto& file) { return r < file->first_row; });
  return **(after - 1);
}

RowCut Corpus::cut(std::uint32_t row) const {
  const File& file = file_of(row);
  const std::uint32_t local = row - file.first_row;
  return cut_row(
      {file.cache.row_length(local), file.cache.prompt_len(local), file.cache.flags(local)},
      options_.max_length, options_.truncate);
}

void Corpus::copy_row(std::uint32_t row, const RowCut& cut, std::span<std::int32_t> out) const {
  const File& file = file_of(row);
  const std::uint64_t begin = file.cache.row_begin(row - file.first_row);
  file.cache.copy(begin, out.first(cut.head));
  file.cache.copy(begin + cut.tail_begin, out.subspan(cut.head, cut.tail));
}

std::uint64_t Corpus::sample_id(std::uint32_t row) const {
  const File& file = file_of(row);
  const auto ordinal = static_cast<std::uint64_t>(
      std::find_if(files_.begin(), files_.end(), [&](const auto& f) { return f.get() == &file; }) -
      files_.begin());
  return ordinal << 40 | (row - file.first_row);
}

std::optional<float> Corpus::reward(std::uint32_t row) const {
  const File& file = file_of(row);
  if (!file.index) return std::nullopt;
  const std::uint32_t local = row - file.first_row;
  if (!(file.index->flags()[local] & kRowHasReward)) return std::nullopt;
  return file.index->reward()[local];
}

void Corpus::require_labels(std::string_view reader) const {
  constexpr const char* kHint =
      "give every row is_correct (true, false or a number from 0 to 1); rows without it serve "
      "stages baseline and rho1 without data_sampling.balance_correct";
  if (format_ == Format::text)
    throw Error(ErrorKind::data, "data",
                fmt::format("{} reads the label of every row, plain text has none", reader), kHint);
  for (std::uint32_t row = 0; row < num_rows_; ++row)
    if (table_.is_candidate(row) && !reward(row))
      throw Error(ErrorKind::data, "data",
                  fmt::format("{}: a row without is_correct, {} reads it ({} of {} rows have none)",
                              place_of(row), reader,
                              format_ == Format::tokens ? num_rows_ : counters_.num_without_reward,
                              num_rows_),
                  kHint);
}

std::string Corpus::place_of(std::uint32_t row) const {
  const File& file = file_of(row);
  return fmt::format("{}:{}", file.path.string(), row - file.first_row + 1);
}

void Corpus::make_table() {
  for (const auto& file : files_) {
    const CacheFacts& facts = file->cache.facts();
    counters_.boundary_merges += facts.boundary_merges;
    counters_.num_empty_documents += facts.num_empty_documents;
    const std::uint64_t* bad = file->index ? file->index->facts().bad_counts : facts.bad_counts;
    for (std::size_t i = 0; i < kNumBadCauses; ++i) counters_.bad_counts[i] += bad[i];
    counters_.num_blank += facts.num_blank;
    if (file->index) counters_.num_without_reward += file->index->facts().num_without_reward;
  }
  counters_.num_bad =
      std::accumulate(counters_.bad_counts.begin(), counters_.bad_counts.end(), std::uint64_t{0});
  counters_.num_rows = num_rows_;
  if (format_ == Format::text) return;
  std::vector<std::string_view> names;
  for (const auto& file : files_) {
    RowTable::Part part;
    part.num_rows = file->cache.num_rows();
    names.clear();
    if (file->index) {
      const RowIndex& index = *file->index;
      for (std::uint32_t i = 0; i < index.num_problems(); ++i)
        names.push_back(index.problem_name(i));
      part.difficulty = index.difficulty();
      part.flags = index.flags();
      part.problem = index.problem();
      part.output_tokens = index.output_tokens();
      part.has_token_counts = index.has_token_counts();
    }
    part.problem_names = names;
    table_.add(part);
  }
  std::vector<bool> candidates(num_rows_);
  for (std::uint32_t row = 0; row < num_rows_; ++row) {
    const File& file = file_of(row);
    if (file.cache.flags(row - file.first_row) & kTokenRowEmpty) continue;
    const RowCut shape = cut(row);
    count_row(row, shape);
    candidates[row] = shape.has_target();
  }
  table_.set_candidates(std::move(candidates));
  const std::uint64_t good = num_rows_ - counters_.num_blank - counters_.num_bad;
  const std::uint64_t lost = counters_.num_without_target + counters_.num_dropped_long;
  if (lost * 20 > good)
    log::warn("data", "{} of {} rows have no target within dataset.max_length: {}; raise it", lost,
              good, options_.max_length);
}

void Corpus::count_row(std::uint32_t row, const RowCut& shape) {
  const bool correct = table_.is_correct(row);
  if (shape.truncated) {
    ++counters_.truncated_rows[correct];
    counters_.truncated_tokens[correct] += shape.lost_tokens;
  }
  if (shape.has_target())
    ++counters_.num_candidates;
  else
    ++(shape.dropped ? counters_.num_dropped_long : counters_.num_without_target);
}

std::vector<std::uint32_t> Corpus::rows_without_target() const {
  std::vector<std::uint32_t> rows;
  for (std::uint32_t row = 0; row < num_rows_ && format_ != Format::text; ++row) {
    const File& file = file_of(row);
    if (!(file.cache.flags(row - file.first_row) & kTokenRowEmpty) && !table_.is_candidate(row))
      rows.push_back(row);
  }
  return rows;
}

}  // namespace wmtp::data
