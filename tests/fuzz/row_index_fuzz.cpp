#include "fuzz/section_input.h"
#include "wmtp/data/index/row_index.h"

WMTP_FUZZ_TARGET(row_index) {
  using namespace wmtp;
  const std::string content = fuzz::section_file(bytes, sizeof(data::IndexFacts));
  const fuzz::MemoryFile file(fuzz::bytes_of(content));
  const data::RowIndex index = data::RowIndex::open(file.path());
  std::size_t num_bytes = 0;
  for (const std::uint32_t problem : index.problem())
    if (problem != data::kNoProblem) num_bytes += index.problem_name(problem).size();
  fuzz::require(
      num_bytes <= content.size() * content.size() && index.flags().size() <= content.size(),
      "more names than the file holds");
  index.has_token_counts();
}
