// The files of a split, opened: indexes and token caches, rows numbered through all files.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/data/index/row_index.h"
#include "wmtp/data/options.h"
#include "wmtp/data/sampling/row_table.h"
#include "wmtp/data/tokens/token_cache.h"
#include "wmtp/data/tokens/truncation.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::data {

struct CorpusCounters {
  std::uint64_t num_rows = 0, num_blank = 0, num_bad = 0, num_candidates = 0;
  std::uint64_t num_without_target = 0, num_dropped_long = 0, boundary_merges = 0;
  std::uint64_t num_empty_documents = 0;
  std::uint64_t num_without_reward = 0;
  std::uint64_t truncated_rows[2] = {0, 0};  // incorrect, correct
  std::uint64_t truncated_tokens[2] = {0, 0};
  BadCounts bad_counts{};
};

class Corpus {
 public:
  // Opens every file, building what is missing where `cache.auto_cache` allows. BORROWS the
  // tokenizer during the call. BLOCKS. `need_token_counts`: lengths of outputs alone are wanted in
  // the index. Several ranks: one builds first (see prepare), the others open with auto_cache off.
  Corpus(const DatasetOptions& options, const tokenizer::Tokenizer& tokenizer,
         bool need_token_counts);

  Format format() const { return format_; }  // never automatic
  std::uint32_t num_rows() const { return num_rows_; }
  std::uint64_t num_tokens() const;  // stored, all files
  std::uint32_t max_length() const { return options_.max_length; }
  const DatasetOptions& options() const { return options_; }

  // Rows (instruct, tokens).
  RowCut cut(std::uint32_t row) const;
  void copy_row(std::uint32_t row, const RowCut& cut, std::span<std::int32_t> out) const;
  std::uint64_t sample_id(std::uint32_t row) const;  // file ordinal << 40 | row of the file
  std::optional<float> reward(std::uint32_t row) const;
  // Error data naming the first usable row without is_correct; `reader` says what reads the label.
  void require_labels(std::string_view reader) const;
  const RowTable& table() const { return table_; }
  const CorpusCounters& counters() const { return counters_; }
  // Rows that cannot be drawn although their line is good.
  std::vector<std::uint32_t> rows_without_target() const;
  std::string place_of(std::uint32_t row) const;  // "train.jsonl:18"

  struct File {
    std::filesystem::path path;
    std::optional<RowIndex> index;  // instruct only
    TokenCache cache;
    std::uint32_t first_row = 0;
  };
  const std::vector<std::unique_ptr<File>>& files() const { return files_; }
  const File& file_of(std::uint32_t row) const;

  // SHA-256 over the files' data fingerprints in order; and the tokenizer's.
  const std::string& data_fingerprint() const { return data_fingerprint_; }
  const std::string& tokenizer_fingerprint() const { return tokenizer_fingerprint_; }

 private:
  void open_file(const std::filesystem::path& path, std::size_t ordinal,
                 const tokenizer::Tokenizer& tokenizer, bool need_token_counts);
  TokenCache open_given_cache(const std::filesystem::path& path,
                              const tokenizer::Tokenizer& tokenizer) const;
  void make_table();
  void count_row(std::uint32_t row, const RowCut& cut);

  DatasetOptions options_;
  Format format_ = Format::automatic;
  std::vector<std::unique_ptr<File>> files_;
  std::uint32_t num_rows_ = 0;
  RowTable table_;
  CorpusCounters counters_;
  std::string data_fingerprint_, tokenizer_fingerprint_;
};

}  // namespace wmtp::data
