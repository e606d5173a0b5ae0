// <stem>-<key>.wtok: the token ids of every row of a data file, whole, mapped. Truncation happens
// on reading, so one cache serves every max_length, stage and run.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "wmtp/data/index/bad_lines.h"
#include "wmtp/data/options.h"
#include "wmtp/data/sections/section_file.h"
#include "wmtp/data/tokens/encode_row.h"

namespace wmtp::data {

enum class CacheKind : std::uint32_t { rows, documents };

// The header's facts, as stored.
struct CacheFacts {
  std::uint64_t num_rows, num_tokens;
  std::uint32_t token_bytes;  // 2 or 4
  CacheKind kind;
  std::uint64_t vocab_size;
  std::uint8_t data_fingerprint[32], tokenizer_fingerprint[32], key[32];
  std::uint64_t bad_counts[kNumBadCauses];
  std::uint64_t num_blank, num_empty_documents, boundary_merges, cut_rows, split_documents;
};

// What decides the tokens of a file.
struct CacheIdentity {
  CacheKind kind = CacheKind::rows;
  std::string tokenizer_fingerprint;
  Sha256Digest data_fingerprint{};
  EncodeSettings encode;
  config::TextData text;
  BadLinePolicy bad_lines;
};
Sha256Digest cache_key(const CacheIdentity& identity);

FileFormat cache_format();

class TokenCache {
 public:
  // Checks header, row table and prompt lengths; the tokens are checked when first touched.
  static TokenCache open(const std::filesystem::path& path);

  std::uint32_t num_rows() const { return static_cast<std::uint32_t>(facts_.num_rows); }
  std::uint64_t num_tokens() const { return facts_.num_tokens; }
  std::uint64_t row_begin(std::uint32_t row) const { return row_start_[row]; }
  std::uint32_t row_length(std::uint32_t row) const {
    return static_cast<std::uint32_t>(row_start_[row + 1] - row_start_[row]);
  }
  std::uint32_t prompt_len(std::uint32_t row) const { return prompt_len_[row]; }
  std::uint8_t flags(std::uint32_t row) const { return row_flags_[row]; }
  std::span<const std::uint64_t> row_start() const { return row_start_; }
  const CacheFacts& facts() const { return facts_; }
  const std::filesystem::path& path() const { return file_.path(); }

  // Ids begin..begin+out.size() of the whole file; ErrorKind::data where the bytes are damaged or
  // an id is outside the vocabulary. REQUIRES the range to be inside. THREADS: any.
  void copy(std::uint64_t begin, std::span<std::int32_t> out) const;

 private:
  explicit TokenCache(SectionFile file);
  template <class T>
  void copy_as(std::uint64_t begin, std::span<std::int32_t> out) const;
  void check() const;
  [[noreturn]] void damaged(std::string_view fact) const;

  SectionFile file_;
  CacheFacts facts_;
  std::span<const std::uint64_t> row_start_;
  std::span<const std::uint32_t> prompt_len_;
  std::span<const std::uint8_t> row_flags_;
};

}  // namespace wmtp::data
