#include "wmtp/data/plan/epoch_view.h"

#include <algorithm>

#include "wmtp/core/error.h"

namespace wmtp::data {

Sequence RowEpoch::sequence_of(std::uint32_t row) const {
  const RowCut cut = corpus_->cut(row);
  Sequence sequence;
  sequence.sample_id = corpus_->sample_id(row);
  sequence.source = row;
  sequence.length = cut.length();
  sequence.prompt_len = cut.prompt_len;
  const auto reward = corpus_->reward(row);
  sequence.reward = reward.value_or(1.0f);
  sequence.has_reward = reward.has_value();
  sequence.flags = static_cast<std::uint8_t>((cut.truncated ? kDocTruncated : 0) |
                                             (cut.ends_with_eos ? kDocEos : 0));
  return sequence;
}

void RowEpoch::append_sequences(std::uint64_t place, std::vector<Sequence>& out) const {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), place,
                       [](std::uint64_t p, const OrderedPiece& piece) { return p < piece.first; });
  const std::uint64_t index = (after - 1)->index_of(place);
  if (!list_->paired) {
    out.push_back(sequence_of(list_->rows[index]));
    return;
  }
  const RowPair& pair = list_->pairs[index];
  for (const auto& [row, role] :
       {std::pair(pair.positive, kPositive), std::pair(pair.negative, kNegative)}) {
    Sequence sequence = sequence_of(row);
    sequence.pair_role = role;
    sequence.length_bin = pair.length_bin;
    out.push_back(sequence);
  }
}

void RowEpoch::copy_tokens(const Sequence& sequence, std::span<std::int32_t> out) const {
  const auto row = static_cast<std::uint32_t>(sequence.source);
  corpus_->copy_row(row, corpus_->cut(row), out);
}

void BlockEpoch::append_sequences(std::uint64_t place, std::vector<Sequence>& out) const {
  std::uint64_t block = order_.index_of(place);
  if (list_) block = list_->rows[block];
  blocks_->visit_parts(block, [&, part = 0u](std::uint64_t begin, std::uint32_t length) mutable {
    Sequence sequence;
    sequence.sample_id = block;
    sequence.part = part++;
    sequence.source = begin;
    sequence.length = length;
    out.push_back(sequence);
  });
}

void BlockEpoch::copy_tokens(const Sequence& sequence, std::span<std::int32_t> out) const {
  blocks_->copy(sequence.source, out);
}

}  // namespace wmtp::data
