#include "wmtp/data/index/index_rows.h"

#include <fmt/format.h>

namespace wmtp::data {
namespace {

void add_row(ChunkRows& out, const Row& row, std::uint32_t num_output_tokens) {
  if (const auto name = problem_of(row)) out.problem.back() = out.number_of(*name);
  if (row.difficulty) out.difficulty.back() = *row.difficulty;
  out.reward.back() = row.reward.value_or(1.0f);
  out.flags.back() = static_cast<std::uint8_t>((row.reward ? kRowHasReward : 0) |
                                               (row.correct() ? kRowCorrect : 0));
  out.output_tokens.back() = num_output_tokens;
  if (row.task_id && row.reward)
    if (const auto claimed = class_of_suffix(*row.task_id); claimed && *claimed != row.correct())
      ++out.suffix_contradictions;
}

}  // namespace

ChunkRows read_index_rows(const LineChunk& chunk, std::uint64_t max_line_bytes,
                          const tokenizer::Tokenizer* tokenizer) {
  ChunkRows out;
  out.end_offset = chunk.first_offset + chunk.bytes.size();
  const auto refuse = [&](BadLine bad) {
    bad.row = out.flags.size() - 1;
    out.flags.back() = kRowBad;
    out.bad.push_back(std::move(bad));
  };
  const auto too_long = [&](std::uint64_t bytes) {
    refuse({BadCause::too_long, 0, 1,
            fmt::format("the line has {} bytes, more than dataset.max_line_bytes: {}", bytes,
                        max_line_bytes)});
  };
  if (chunk.overlong_bytes > 0) {
    out.push(chunk.first_offset, chunk.overlong_bytes, kRowBad);
    too_long(chunk.overlong_bytes);
    return out;
  }
  RowParser parser;
  std::vector<tokenizer::TokenId> ids;
  Row row;
  for_each_line(chunk, [&](const Line& line) {
    out.push(line.offset, line.text.size(), 0);
    if (line.text.size() > max_line_bytes) return too_long(line.text.size());
    if (is_blank(line.text)) {
      out.flags.back() = kRowBlank;
      return;
    }
    if (auto bad = parser.parse(line, row)) return refuse(std::move(*bad));
    ids.clear();
    if (tokenizer) tokenizer->encode(row.output, {}, ids);
    add_row(out, row, static_cast<std::uint32_t>(ids.size()));
  });
  out.ignored_keys = parser.ignored_keys();
  return out;
}

}  // namespace wmtp::data
