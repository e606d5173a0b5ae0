#include "wmtp/data/tokens/truncation.h"

namespace wmtp::data {

RowCut cut_row(const StoredRow& row, std::uint32_t max_length, Truncate truncate) {
  RowCut cut;
  cut.prompt_len = row.prompt_len;
  if (row.length <= max_length) {
    cut.head = row.length;
    cut.ends_with_eos = row.flags & kTokenRowEos;
    cut.truncated = row.flags & kTokenRowCut;
    return cut;
  }
  cut.truncated = true;
  cut.lost_tokens = row.length - max_length;
  if (truncate == Truncate::drop) {
    cut.dropped = true;
    cut.lost_tokens = row.length;
    return cut;
  }
  if (truncate == Truncate::right) {
    cut.head = max_length;
    cut.prompt_len = std::min(row.prompt_len, max_length);
    return cut;
  }
  const std::uint32_t bos = (row.flags & kTokenRowBos) && row.prompt_len > 0 ? 1 : 0;
  const std::uint32_t response = row.length - row.prompt_len;
  const std::uint32_t room = max_length - bos;
  const std::uint32_t kept_prompt = room > response ? room - response : 0;
  cut.head = bos;
  cut.tail_begin = row.prompt_len - kept_prompt;
  cut.tail = room;
  cut.prompt_len = bos + kept_prompt;
  cut.ends_with_eos = response <= room && (row.flags & kTokenRowEos);
  return cut;
}

}  // namespace wmtp::data
