// The rows of one chunk of lines as columns of the index.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "wmtp/data/index/bad_lines.h"
#include "wmtp/data/index/line_chunks.h"
#include "wmtp/data/index/row_index.h"
#include "wmtp/data/index/row_schema.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::data {

// Columns of the rows of one chunk; problems are numbered inside the chunk.
struct ChunkRows {
  std::vector<std::uint64_t> line_offset;
  std::vector<std::uint32_t> line_bytes, problem, output_tokens;
  std::vector<std::int16_t> difficulty;
  std::vector<std::uint8_t> flags;
  std::vector<float> reward;
  std::vector<std::string> problems;
  std::unordered_map<std::string, std::uint32_t> problem_numbers;
  std::vector<BadLine> bad;  // row = place in the chunk
  KeyCounts ignored_keys;
  std::uint64_t suffix_contradictions = 0, end_offset = 0;

  std::uint32_t number_of(std::string_view name) {
    const auto [entry, fresh] =
        problem_numbers.try_emplace(std::string(name), static_cast<std::uint32_t>(problems.size()));
    if (fresh) problems.emplace_back(name);
    return entry->second;
  }

  void push(std::uint64_t offset, std::uint64_t bytes, std::uint8_t flag) {
    line_offset.push_back(offset);
    line_bytes.push_back(static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, 0xFFFFFFFF)));
    problem.push_back(kNoProblem);
    output_tokens.push_back(0);
    difficulty.push_back(kNoDifficulty);
    flags.push_back(flag);
    reward.push_back(0);
  }
};

// `tokenizer` (may be null) counts the tokens of outputs. THREADS: any.
ChunkRows read_index_rows(const LineChunk& chunk, std::uint64_t max_line_bytes,
                          const tokenizer::Tokenizer* tokenizer);

}  // namespace wmtp::data
