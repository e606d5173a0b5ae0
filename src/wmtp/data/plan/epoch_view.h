// One epoch of a data set, immutable: which sequences stand at which place, and their tokens.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "wmtp/core/pair_role.h"
#include "wmtp/data/corpus.h"
#include "wmtp/data/plan/text_blocks.h"
#include "wmtp/data/sampling/curriculum.h"
#include "wmtp/data/sampling/epoch_order.h"
#include "wmtp/data/sampling/sample_list.h"

namespace wmtp::data {

enum DocFlag : std::uint8_t { kDocTruncated = 1, kDocEos = 2, kDocFiller = 4 };
// One document of a batch: a row, a side of a pair, a block, or a document's part of a block.
struct Sequence {
  std::uint64_t sample_id = 0;
  std::uint64_t source = 0;  // row number, or place in the stream of blocks
  std::uint32_t part = 0;    // of a block of several documents
  std::uint32_t length = 0, prompt_len = 0;
  float reward = 1;
  std::int16_t length_bin = -1;
  bool has_reward = false;
  std::uint8_t pair_role = kSingle;
  std::uint8_t flags = 0;  // DocFlag
};

// THREADS: const members from any thread.
class EpochView {
 public:
  virtual ~EpochView() = default;
  virtual std::uint64_t size() const = 0;  // samples
  // Appends the sequences of the sample at `place`: one, two of a pair (positive first), or the
  // documents of a block.
  virtual void append_sequences(std::uint64_t place, std::vector<Sequence>& out) const = 0;
  // REQUIRES out.size() == sequence.length.
  virtual void copy_tokens(const Sequence& sequence, std::span<std::int32_t> out) const = 0;
};

// A run of places with its own permutation; none: list order.
struct OrderedPiece {
  std::uint64_t first = 0, count = 0;
  std::optional<EpochOrder> order;
  std::uint64_t index_of(std::uint64_t place) const {
    return first + (order ? (*order)(place - first) : place - first);
  }
};

class RowEpoch : public EpochView {
 public:
  RowEpoch(std::shared_ptr<const Corpus> corpus, std::shared_ptr<const SampleList> list,
           std::vector<OrderedPiece> pieces)
      : corpus_(std::move(corpus)), list_(std::move(list)), pieces_(std::move(pieces)) {}
  std::uint64_t size() const override { return list_->size(); }
  void append_sequences(std::uint64_t place, std::vector<Sequence>& out) const override;
  void copy_tokens(const Sequence& sequence, std::span<std::int32_t> out) const override;

 private:
  Sequence sequence_of(std::uint32_t row) const;
  std::shared_ptr<const Corpus> corpus_;
  std::shared_ptr<const SampleList> list_;
  std::vector<OrderedPiece> pieces_;
};

class BlockEpoch : public EpochView {
 public:
  // `list`: the drawn blocks; none: all of them.
  BlockEpoch(std::shared_ptr<const TextBlocks> blocks, std::shared_ptr<const SampleList> list,
             OrderedPiece order)
      : blocks_(std::move(blocks)), list_(std::move(list)), order_(std::move(order)) {}
  std::uint64_t size() const override { return order_.count; }
  void append_sequences(std::uint64_t place, std::vector<Sequence>& out) const override;
  void copy_tokens(const Sequence& sequence, std::span<std::int32_t> out) const override;

 private:
  std::shared_ptr<const TextBlocks> blocks_;
  std::shared_ptr<const SampleList> list_;
  OrderedPiece order_;
};

}  // namespace wmtp::data
