#include "wmtp/data/plan/dataset.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"

namespace wmtp::data {

Dataset::Dataset(std::shared_ptr<const Corpus> corpus, const SamplingOptions& options, Split split)
    : corpus_(std::move(corpus)), options_(options), split_(split) {
  if (split == Split::validation) {
    options_.n_samples = options_.val_n_samples;
    options_.curriculum_learning = options_.resample_each_epoch = false;
  }
  if (corpus_->format() == Format::text) {
    if (options_.use_pairwise || options_.balance_correct || options_.curriculum_learning)
      throw Error(ErrorKind::config, "data", "plain text has no pairs, classes or curriculum");
    blocks_ = std::make_shared<TextBlocks>(corpus_, DocumentOrder{});
    num_tail_tokens_ = blocks_->num_dropped_tokens();
  }
  if (options_.balance_correct) corpus_->require_labels("data_sampling.balance_correct");
  if (options_.use_pairwise) corpus_->require_labels("data_sampling.use_pairwise");
  drawn_ = draw(0, report_);
  size_ = drawn_.list ? drawn_.list->size() : blocks_->num_blocks();
  if (size_ == 0)
    throw Error(ErrorKind::data, "data",
                fmt::format("the {} set has no samples",
                            split == Split::validation ? "validation" : "training"),
                "`wmtp data inspect --config C --dropped` says which rows cannot be used");
}

bool Dataset::differs_by_epoch() const {
  return options_.curriculum_learning || options_.resample_each_epoch;
}

SampleList Dataset::draw_fixed(const RowTable& table, const std::string& prefix,
                               DrawReport& report) const {
  const bool all = !options_.n_samples;
  DrawRequest request{table,  options_,
                      prefix, all ? 0 : static_cast<std::uint64_t>(*options_.n_samples),
                      all,    options_.difficulty_weights};
  if (split_ == Split::validation) request.count_key = "data_sampling.val_n_samples";
  SampleList list = draw_samples(request, report);
  if (split_ == Split::validation) {
    std::sort(list.rows.begin(), list.rows.end());
    std::sort(list.pairs.begin(), list.pairs.end());
  }
  return list;
}

Dataset::Drawn Dataset::draw(std::uint64_t epoch, DrawReport& report) const {
  Drawn drawn;
  const std::string prefix = split_ == Split::validation    ? "validation/"
                             : options_.resample_each_epoch ? fmt::format("epoch/{}/", epoch)
                                                            : "";
  if (options_.curriculum_learning) {
    CurriculumEpoch made = draw_curriculum(corpus_->table(), options_, epoch, report);
    drawn.pieces = std::move(made.pieces);
    drawn.list = std::make_shared<SampleList>(std::move(made.list));
  } else if (!blocks_) {
    drawn.list = std::make_shared<SampleList>(draw_fixed(corpus_->table(), prefix, report));
  } else if (options_.n_samples) {
    RowTable blocks;
    RowTable::Part part;
    part.num_rows = static_cast<std::uint32_t>(blocks_->num_blocks());
    blocks.add(part);
    blocks.set_candidates(std::vector<bool>(part.num_rows, true));
    drawn.list = std::make_shared<SampleList>(draw_fixed(blocks, prefix, report));
  }
  drawn.hash = drawn.list ? to_hex(drawn.list->digest())
                          : sha256_hex(fmt::format("blocks {} of {}", blocks_->num_blocks(),
                                                   corpus_->max_length()));
  if (drawn.list && drawn.list->paired) check_pairs(*drawn.list);
  return drawn;
}

Dataset::Drawn Dataset::drawn_of(std::uint64_t epoch) const {
  std::lock_guard lock(mutex_);
  if (differs_by_epoch() && epoch != drawn_epoch_) {
    DrawReport report;
    drawn_ = draw(epoch, report);
    drawn_epoch_ = epoch;
    if (report.num_drawn_again > 0)
      log::warn("data", "epoch {}: {} samples used again, their bins ran out", epoch,
                report.num_drawn_again);
  }
  return drawn_;
}

std::string Dataset::list_hash(std::uint64_t epoch) const {
  return drawn_of(epoch).hash;
}

Cursor Dataset::cursor_at(std::uint64_t epoch, std::uint64_t samples_taken) const {
  return {epoch,
          samples_taken,
          static_cast<std::uint64_t>(options_.seed),
          size_,
          list_hash(epoch),
          corpus_->data_fingerprint(),
          corpus_->tokenizer_fingerprint()};
}

std::vector<OrderedPiece> Dataset::order_of(std::uint64_t epoch, const Drawn& drawn) const {
  const auto seed = static_cast<std::uint64_t>(options_.seed);
  const bool shuffled = options_.shuffle && split_ == Split::train &&
                        (!blocks_ || corpus_->options().text.shuffle == TextShuffle::blocks);
  std::vector<OrderedPiece> pieces;
  const auto add = [&](std::uint64_t first, std::uint64_t count, const std::string& name) {
    OrderedPiece piece{first, count, std::nullopt};
    if (shuffled && count > 0) piece.order.emplace(seed, name, count);
    pieces.push_back(piece);
  };
  if (drawn.pieces.empty()) add(0, size_, fmt::format("order/{}", epoch));
  for (std::size_t i = 0; i < drawn.pieces.size(); ++i)
    add(drawn.pieces[i].first, drawn.pieces[i].count, fmt::format("order/{}/{}", epoch, i));
  return pieces;
}

std::shared_ptr<const EpochView> Dataset::epoch(std::uint64_t number) const {
  const Drawn drawn = drawn_of(number);
  auto pieces = order_of(number, drawn);
  if (!blocks_) return std::make_shared<RowEpoch>(corpus_, drawn.list, std::move(pieces));
  auto blocks = blocks_;
  if (split_ == Split::train && options_.shuffle &&
      corpus_->options().text.shuffle == TextShuffle::documents)
    blocks = std::make_shared<TextBlocks>(
        corpus_, DocumentOrder{true, static_cast<std::uint64_t>(options_.seed), number});
  return std::make_shared<BlockEpoch>(std::move(blocks), drawn.list, pieces.front());
}

// Both sides of a pair answer one prompt. A token that merges across the border may end it earlier.
void Dataset::check_pairs(const SampleList& list) const {
  std::vector<std::int32_t> first, second;
  for (const RowPair& pair : list.pairs) {
    const auto prompt = [&](std::uint32_t row, std::vector<std::int32_t>& out) {
      const Corpus::File& file = corpus_->file_of(row);
      const std::uint32_t local = row - file.first_row;
      out.resize(file.cache.prompt_len(local));
      file.cache.copy(file.cache.row_begin(local), out);
    };
    prompt(pair.positive, first);
    prompt(pair.negative, second);
    const std::size_t shared = std::min(first.size(), second.size());
    const bool merged = std::max(first.size(), second.size()) - shared <= 8;
    if (merged && std::equal(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(shared),
                             second.begin()))
      continue;
    throw Error(ErrorKind::data, "data",
                fmt::format("{} and {} are a pair, but their prompts differ",
                            corpus_->place_of(pair.positive), corpus_->place_of(pair.negative)),
                "rows of one problem need the same instruction and input");
  }
}

}  // namespace wmtp::data
