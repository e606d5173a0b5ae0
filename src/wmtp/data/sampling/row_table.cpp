#include "wmtp/data/sampling/row_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"

namespace wmtp::data {

void RowTable::add(const Part& part) {
  if (std::uint64_t{num_rows_} + part.num_rows >= kNoProblem)
    throw Error(ErrorKind::config, "data", "more than 2^32 - 2 rows in one data set");
  parts_.push_back({part, num_rows_, {}});
  names_of_part_.emplace_back(part.problem_names.begin(), part.problem_names.end());
  parts_.back().part.problem_names = {};
  num_rows_ += part.num_rows;
  renumber();
}

void RowTable::renumber() {
  problem_names_ = names_of_part_.front();
  if (parts_.size() == 1) return;
  for (const auto& names : names_of_part_)
    problem_names_.insert(problem_names_.end(), names.begin(), names.end());
  std::sort(problem_names_.begin(), problem_names_.end());
  problem_names_.erase(std::unique(problem_names_.begin(), problem_names_.end()),
                       problem_names_.end());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    std::vector<std::uint32_t>& global = parts_[i].global_problem;
    global.clear();
    for (std::string_view name : names_of_part_[i])
      global.push_back(static_cast<std::uint32_t>(
          std::lower_bound(problem_names_.begin(), problem_names_.end(), name) -
          problem_names_.begin()));
  }
}

const RowTable::Stored& RowTable::part_of(std::uint32_t row) const {
  if (parts_.size() == 1) return parts_.front();
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), row,
                       [](std::uint32_t r, const Stored& p) { return r < p.first_row; });
  return *(after - 1);
}

std::int16_t RowTable::difficulty(std::uint32_t row) const {
  const Stored& stored = part_of(row);
  return stored.part.difficulty.empty() ? kNoDifficulty
                                        : stored.part.difficulty[row - stored.first_row];
}

bool RowTable::is_correct(std::uint32_t row) const {
  const Stored& stored = part_of(row);
  return stored.part.flags.empty() ||
         (stored.part.flags[row - stored.first_row] & kRowCorrect) != 0;
}

std::uint32_t RowTable::problem(std::uint32_t row) const {
  const Stored& stored = part_of(row);
  if (stored.part.problem.empty()) return kNoProblem;
  const std::uint32_t local = stored.part.problem[row - stored.first_row];
  return local == kNoProblem || stored.global_problem.empty() ? local
                                                              : stored.global_problem[local];
}

std::uint32_t RowTable::output_tokens(std::uint32_t row) const {
  const Stored& stored = part_of(row);
  return stored.part.output_tokens.empty() ? 0 : stored.part.output_tokens[row - stored.first_row];
}

bool RowTable::has_token_counts() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const Stored& stored) { return stored.part.has_token_counts; });
}

}  // namespace wmtp::data
