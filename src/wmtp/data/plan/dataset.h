// A split with its sampling rules: which samples make up each epoch, the same on every rank.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "wmtp/data/corpus.h"
#include "wmtp/data/options.h"
#include "wmtp/data/plan/cursor.h"
#include "wmtp/data/plan/epoch_view.h"

namespace wmtp::data {

enum class Split { train, validation };

class Dataset {
 public:
  // Draws the list (or that of epoch 0). Data errors: shortages; pairs whose prompts differ; rows
  // without a label where the options read it.
  Dataset(std::shared_ptr<const Corpus> corpus, const SamplingOptions& options, Split split);

  std::uint64_t size() const { return size_; }  // N, samples of an epoch
  // The epoch's order; draws it first where lists differ between epochs. THREADS: any.
  std::shared_ptr<const EpochView> epoch(std::uint64_t number) const;
  // SHA-256 (hex) of the epoch's list: ranks compare it, checkpoints keep it.
  std::string list_hash(std::uint64_t epoch) const;
  // The cursor of this data at the start of `epoch`.
  Cursor cursor_at(std::uint64_t epoch, std::uint64_t samples_taken) const;

  const Corpus& corpus() const { return *corpus_; }
  const SamplingOptions& options() const { return options_; }
  const DrawReport& report() const { return report_; }  // of the list drawn first
  // Tokens of the last incomplete block that drop_tail leaves out; 0 for rows.
  std::uint64_t num_tail_tokens() const { return num_tail_tokens_; }

 private:
  struct Drawn {
    std::shared_ptr<const SampleList> list;  // none: all blocks
    std::vector<CurriculumPiece> pieces;     // of a curriculum
    std::string hash;
  };
  bool differs_by_epoch() const;
  Drawn draw(std::uint64_t epoch, DrawReport& report) const;
  Drawn drawn_of(std::uint64_t epoch) const;
  SampleList draw_fixed(const RowTable& table, const std::string& prefix, DrawReport& report) const;
  std::vector<OrderedPiece> order_of(std::uint64_t epoch, const Drawn& drawn) const;
  void check_pairs(const SampleList& list) const;

  std::shared_ptr<const Corpus> corpus_;
  SamplingOptions options_;
  Split split_;
  std::uint64_t size_ = 0, num_tail_tokens_ = 0;
  DrawReport report_;
  std::shared_ptr<const TextBlocks> blocks_;  // of text in file order
  mutable std::mutex mutex_;                  // guards the latest drawn epoch
  mutable std::uint64_t drawn_epoch_ = 0;
  mutable Drawn drawn_;
};

}  // namespace wmtp::data
