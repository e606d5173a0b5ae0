// <split>.widx: what sampling needs to know about every row of a JSONL file, mapped. Row id =
// physical line number from 0.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "wmtp/data/index/bad_lines.h"
#include "wmtp/data/sections/section_file.h"

namespace wmtp::data {

constexpr std::uint32_t kNoProblem = 0xFFFFFFFF;
constexpr std::int16_t kNoDifficulty = -32768;

enum RowFlag : std::uint8_t {
  kRowBlank = 1,
  kRowBad = 2,
  kRowHasReward = 4,
  kRowCorrect = 8,  // also set where there is no reward
};

// The header's facts, as stored.
struct IndexFacts {
  std::uint64_t num_rows, num_problems;
  std::uint64_t source_bytes;
  std::int64_t source_mtime_ns;
  std::uint8_t data_fingerprint[32], tokenizer_fingerprint[32], metadata_fingerprint[32];
  std::uint64_t policy_skip;
  double policy_max_bad_fraction;
  std::uint64_t policy_max_bad_lines, policy_max_line_bytes;
  std::uint64_t bad_counts[kNumBadCauses];
  std::uint64_t num_blank, suffix_contradictions, difficulty_disagreements, num_without_reward;
};

FileFormat index_format();

class RowIndex {
 public:
  // Checks every byte (CRC) and that problem numbers and name ends are in range.
  static RowIndex open(const std::filesystem::path& path);

  std::uint32_t num_rows() const { return static_cast<std::uint32_t>(facts_.num_rows); }
  std::uint32_t num_problems() const { return static_cast<std::uint32_t>(facts_.num_problems); }
  std::span<const std::uint64_t> line_offset() const { return line_offset_; }
  std::span<const std::uint32_t> line_bytes() const { return line_bytes_; }
  std::span<const std::uint32_t> problem() const { return problem_; }       // kNoProblem: none
  std::span<const std::int16_t> difficulty() const { return difficulty_; }  // kNoDifficulty: none
  std::span<const std::uint8_t> flags() const { return flags_; }
  std::span<const float> reward() const { return reward_; }
  std::span<const std::uint32_t> output_tokens() const { return output_tokens_; }
  std::string_view problem_name(std::uint32_t problem) const;  // ascending bytewise
  bool has_token_counts() const;
  const IndexFacts& facts() const { return facts_; }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  explicit RowIndex(SectionFile file);
  void check() const;

  SectionFile file_;
  IndexFacts facts_;
  std::span<const std::uint64_t> line_offset_, name_end_;
  std::span<const std::uint32_t> line_bytes_, problem_, output_tokens_;
  std::span<const std::int16_t> difficulty_;
  std::span<const std::uint8_t> flags_;
  std::span<const float> reward_;
  std::span<const char> names_;
};

}  // namespace wmtp::data
