// What sampling may know about the rows of a run's files, numbered through all files in order.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "wmtp/data/index/row_index.h"

namespace wmtp::data {

// BORROWS its columns (mapped indexes). Problems are numbered over all files, in bytewise order of
// ids.
class RowTable {
 public:
  struct Part {
    std::span<const std::int16_t> difficulty;  // empty columns: nothing known (format `tokens`)
    std::span<const std::uint8_t> flags;
    std::span<const std::uint32_t> problem, output_tokens;
    std::span<const std::string_view> problem_names;  // of this file; used while adding only
    std::uint32_t num_rows = 0;
    bool has_token_counts = false;
  };

  void add(const Part& part);
  // One entry per row of all files: may it be drawn? Call after the last add().
  void set_candidates(std::vector<bool> candidates) { candidates_ = std::move(candidates); }

  std::uint32_t num_rows() const { return num_rows_; }
  bool is_candidate(std::uint32_t row) const { return candidates_[row]; }
  std::int16_t difficulty(std::uint32_t row) const;  // kNoDifficulty: none
  bool is_correct(std::uint32_t row) const;
  std::uint32_t problem(std::uint32_t row) const;  // kNoProblem: none
  std::uint32_t output_tokens(std::uint32_t row) const;
  bool has_token_counts() const;
  std::uint32_t num_problems() const { return static_cast<std::uint32_t>(problem_names_.size()); }
  std::string_view problem_name(std::uint32_t problem) const { return problem_names_[problem]; }

 private:
  struct Stored {
    Part part;
    std::uint32_t first_row = 0;
    std::vector<std::uint32_t> global_problem;  // empty: the file's numbers are the global ones
  };
  const Stored& part_of(std::uint32_t row) const;
  void renumber();

  std::vector<Stored> parts_;
  std::vector<std::vector<std::string_view>> names_of_part_;
  std::vector<std::string_view> problem_names_;
  std::vector<bool> candidates_;
  std::uint32_t num_rows_ = 0;
};

}  // namespace wmtp::data
