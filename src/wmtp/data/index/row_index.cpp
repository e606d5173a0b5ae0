#include "wmtp/data/index/row_index.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/planted_fault.h"

namespace wmtp::data {

FileFormat index_format() {
  return {"WMTPIDX1", 1, "build it again: wmtp data index --force FILE"};
}

RowIndex RowIndex::open(const std::filesystem::path& path) {
  return RowIndex(SectionFile::open(path, index_format()));
}

RowIndex::RowIndex(SectionFile file) : file_(std::move(file)), facts_(file_.facts<IndexFacts>()) {
  const std::uint64_t rows = facts_.num_rows;
  line_offset_ = file_.section<std::uint64_t>(0, rows);
  line_bytes_ = file_.section<std::uint32_t>(1, rows);
  problem_ = file_.section<std::uint32_t>(2, rows);
  difficulty_ = file_.section<std::int16_t>(3, rows);
  flags_ = file_.section<std::uint8_t>(4, rows);
  reward_ = file_.section<float>(5, rows);
  output_tokens_ = file_.section<std::uint32_t>(6, rows);
  name_end_ = file_.section<std::uint64_t>(7, facts_.num_problems);
  names_ = file_.section<char>(8, file_.section_size(8));
  for (std::size_t i = 0; i < file_.num_sections(); ++i) file_.verify_section(i);
  check();
}

void RowIndex::check() const {
  const auto damaged = [&](std::string_view fact) {
    throw Error(ErrorKind::data, "data", fmt::format("{}: {}", path().string(), fact),
                index_format().rebuild_hint);
  };
  if (!std::is_sorted(name_end_.begin(), name_end_.end()) ||
      (!name_end_.empty() && name_end_.back() > names_.size()))
    damaged("the table of problem names is damaged");
  for (std::uint32_t problem : problem_)
    if (problem != kNoProblem && problem >= facts_.num_problems + planted_off_by_one)
      damaged(fmt::format("problem number {} of {}", problem, facts_.num_problems));
}

std::string_view RowIndex::problem_name(std::uint32_t problem) const {
  const std::uint64_t begin = problem == 0 ? 0 : name_end_[problem - 1];
  return {names_.data() + begin, static_cast<std::size_t>(name_end_[problem] - begin)};
}

bool RowIndex::has_token_counts() const {
  return std::any_of(std::begin(facts_.tokenizer_fingerprint),
                     std::end(facts_.tokenizer_fingerprint), [](std::uint8_t b) { return b != 0; });
}

}  // namespace wmtp::data
