#include "wmtp/data/plan/text_blocks.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/data/sampling/epoch_order.h"

namespace wmtp::data {

TextBlocks::TextBlocks(std::shared_ptr<const Corpus> corpus, const DocumentOrder& order)
    : corpus_(std::move(corpus)), block_tokens_(corpus_->max_length()) {
  for (const auto& file : corpus_->files()) {
    file_base_.push_back(num_tokens_);
    num_tokens_ += file->cache.num_tokens();
  }
  num_blocks_ = num_tokens_ / block_tokens_;
  const bool has_tail = num_tokens_ % block_tokens_ != 0;
  if (has_tail && (num_blocks_ == 0 || !corpus_->options().text.drop_tail)) ++num_blocks_;
  if (num_blocks_ >= kNoProblem)
    throw Error(ErrorKind::config, "data", "more than 2^32 - 2 blocks");
  if (order.shuffled || corpus_->options().text.document_mask) find_documents();
  if (order.shuffled) permute(order);
}

std::uint64_t TextBlocks::num_dropped_tokens() const {
  const std::uint64_t covered = num_blocks_ * block_tokens_;
  return num_tokens_ > covered ? num_tokens_ - covered : 0;
}

void TextBlocks::find_documents() {
  std::uint32_t row = 0;
  for (const auto& file : corpus_->files())
    for (std::uint32_t local = 0; local < file->cache.num_rows(); ++local, ++row)
      if (file->cache.row_length(local) > 0 && !(file->cache.flags(local) & kTokenRowContinues))
        first_row_.push_back(row);
}

TextBlocks::Document TextBlocks::document(std::uint64_t number) const {
  const auto place_of = [&](std::uint32_t row) {
    const Corpus::File& file = corpus_->file_of(row);
    const auto ordinal =
        static_cast<std::size_t>(std::find_if(corpus_->files().begin(), corpus_->files().end(),
                                              [&](const auto& f) { return f.get() == &file; }) -
                                 corpus_->files().begin());
    return file_base_[ordinal] + file.cache.row_begin(row - file.first_row);
  };
  const std::uint64_t begin = place_of(first_row_[number]);
  const std::uint64_t end =
      number + 1 < first_row_.size() ? place_of(first_row_[number + 1]) : num_tokens_;
  return {begin, end - begin};
}

void TextBlocks::permute(const DocumentOrder& order) {
  const EpochOrder permutation(order.seed, fmt::format("documents/{}", order.epoch),
                               first_row_.size());
  std::uint64_t end = 0;
  permuted_.resize(first_row_.size());
  permuted_end_.resize(first_row_.size());
  for (std::size_t i = 0; i < first_row_.size(); ++i) {
    permuted_[i] = static_cast<std::uint32_t>(permutation(i));
    permuted_end_[i] = end += document(permuted_[i]).length;
  }
}

std::uint64_t TextBlocks::document_end(std::uint64_t place) const {
  if (!permuted_.empty())
    return *std::upper_bound(permuted_end_.begin(), permuted_end_.end(), place);
  std::size_t low = 0, high = first_row_.size();  // last document that begins at or before place
  while (high - low > 1) {
    const std::size_t middle = (low + high) / 2;
    (document(middle).begin <= place ? low : high) = middle;
  }
  const Document found = document(low);
  return found.begin + found.length;
}

void TextBlocks::visit_parts(std::uint64_t block,
                             const std::function<void(std::uint64_t, std::uint32_t)>& visit) const {
  std::uint64_t begin = block * block_tokens_;
  const std::uint64_t end = std::min(begin + block_tokens_, num_tokens_);
  if (!corpus_->options().text.document_mask) {
    visit(begin, static_cast<std::uint32_t>(end - begin));
    return;
  }
  while (begin < end) {
    const std::uint64_t part_end = std::min(end, document_end(begin));
    visit(begin, static_cast<std::uint32_t>(part_end - begin));
    begin = part_end;
  }
}

void TextBlocks::copy(std::uint64_t begin, std::span<std::int32_t> out) const {
  if (permuted_.empty()) return copy_in_file_order(begin, out);
  auto position = static_cast<std::size_t>(
      std::upper_bound(permuted_end_.begin(), permuted_end_.end(), begin) - permuted_end_.begin());
  while (!out.empty()) {
    const Document source = document(permuted_[position]);
    const std::uint64_t inside = source.length - (permuted_end_[position] - begin);
    const std::size_t count = std::min<std::uint64_t>(out.size(), permuted_end_[position] - begin);
    copy_in_file_order(source.begin + inside, out.first(count));
    out = out.subspan(count);
    begin += count;
    ++position;
  }
}

void TextBlocks::copy_in_file_order(std::uint64_t begin, std::span<std::int32_t> out) const {
  while (!out.empty()) {
    const auto ordinal =
        static_cast<std::size_t>(std::upper_bound(file_base_.begin(), file_base_.end(), begin) -
                                 file_base_.begin()) -
        1;
    const TokenCache& cache = corpus_->files()[ordinal]->cache;
    const std::uint64_t local = begin - file_base_[ordinal];
    const std::size_t count = std::min<std::uint64_t>(out.size(), cache.num_tokens() - local);
    cache.copy(local, out.first(count));
    out = out.subspan(count);
    begin += count;
  }
}

}  // namespace wmtp::data
