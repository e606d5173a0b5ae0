#include "wmtp/data/plan/collate.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "wmtp/core/error.h"
#include "wmtp/data/tokens/truncation.h"

namespace wmtp::data {
namespace {

std::size_t round_up(std::size_t value, std::size_t multiple) {
  return multiple <= 1 ? value : (value + multiple - 1) / multiple * multiple;
}

struct Shape {
  std::size_t num_docs = 0, num_tokens = 0, stride = 0, filler = 0;
};

Shape shape_of(const MicroBatchPlan& plan, const CollateOptions& options,
               std::uint32_t max_length) {
  Shape shape;
  shape.num_docs = plan.sequences.size();
  std::size_t longest = 0, total = 0;
  for (const Sequence& sequence : plan.sequences) {
    longest = std::max<std::size_t>(longest, sequence.length);
    total += sequence.length;
  }
  if (!options.packing) {
    shape.stride = options.pad_to_max_length ? max_length : round_up(longest, options.pad_multiple);
    shape.num_tokens = shape.num_docs * shape.stride;
    return shape;
  }
  std::size_t rounded = round_up(total, options.pack_multiple);
  if (options.max_tokens_per_batch)
    rounded =
        std::max<std::size_t>(total, std::min<std::size_t>(rounded, *options.max_tokens_per_batch));
  shape.filler = rounded - total;
  shape.num_tokens = rounded;
  shape.num_docs += shape.filler > 0;
  return shape;
}

void place_document(HostBatch& batch, std::size_t doc, const Sequence& sequence,
                    const EpochView& view, std::size_t extent) {
  const auto begin = static_cast<std::size_t>(batch.doc_start[doc]);
  view.copy_tokens(sequence, batch.tokens.subspan(begin, sequence.length));
  std::iota(batch.positions.begin() + static_cast<std::ptrdiff_t>(begin),
            batch.positions.begin() + static_cast<std::ptrdiff_t>(begin + extent), 0);
  std::memset(batch.target_mask.data() + begin + sequence.prompt_len, 1,
              sequence.length - sequence.prompt_len);
  batch.prompt_len[doc] = static_cast<std::int32_t>(sequence.prompt_len);
  batch.doc_len[doc] = static_cast<std::int32_t>(sequence.length);
  batch.sample_id[doc] = sequence.sample_id;
  batch.sample_part[doc] = sequence.part;
  batch.reward[doc] = sequence.reward;
  batch.has_reward[doc] = sequence.has_reward;
  batch.pair_role[doc] = sequence.pair_role;
  batch.length_bin[doc] = sequence.length_bin;
  batch.doc_flags[doc] = sequence.flags;
  for (std::size_t head = 0; head < batch.head_targets.size(); ++head)
    batch.head_targets[head] +=
        num_targets(sequence.length, sequence.prompt_len, static_cast<std::uint32_t>(head + 1));
}

void place_filler(HostBatch& batch, std::size_t doc, std::size_t length, std::int32_t pad_token) {
  const auto begin = static_cast<std::size_t>(batch.doc_start[doc]);
  std::fill_n(batch.tokens.begin() + static_cast<std::ptrdiff_t>(begin), length, pad_token);
  std::iota(batch.positions.begin() + static_cast<std::ptrdiff_t>(begin),
            batch.positions.begin() + static_cast<std::ptrdiff_t>(begin + length), 0);
  batch.prompt_len[doc] = batch.doc_len[doc] = static_cast<std::int32_t>(length);
  batch.sample_id[doc] = kFillerId;
  batch.length_bin[doc] = -1;
  batch.doc_flags[doc] = kDocFiller;
}

}  // namespace

HostBatch collate(const MicroBatchPlan& plan, const CollateOptions& options,
                  std::uint32_t max_length, const std::shared_ptr<HostAllocator>& allocator) {
  const Shape shape = shape_of(plan, options, max_length);
  WMTP_CHECK(shape.num_tokens <= 0x7FFFFFFF, "a micro-batch of more than 2^31 tokens");
  HostBatch batch = make_host_batch(
      {shape.num_tokens, shape.num_docs, static_cast<std::size_t>(options.num_heads)}, allocator);
  batch.row_stride = static_cast<std::int32_t>(shape.stride);
  if (shape.stride > 0 && options.pad_token != 0)
    std::fill(batch.tokens.begin(), batch.tokens.end(), options.pad_token);
  for (std::size_t doc = 0; doc < plan.sequences.size(); ++doc) {
    const std::size_t extent = shape.stride > 0 ? shape.stride : plan.sequences[doc].length;
    batch.doc_start[doc + 1] = batch.doc_start[doc] + static_cast<std::int32_t>(extent);
    place_document(batch, doc, plan.sequences[doc], *plan.view, extent);
  }
  if (shape.filler > 0) {
    const std::size_t doc = shape.num_docs - 1;
    batch.doc_start[doc + 1] = static_cast<std::int32_t>(shape.num_tokens);
    place_filler(batch, doc, shape.filler, options.pad_token);
  }
  std::copy(plan.step_head_targets.begin(), plan.step_head_targets.end(),
            batch.step_head_targets.begin());
  batch.step_sequences = plan.step_sequences;
  batch.step_pairs = plan.step_pairs;
  batch.step_response_tokens = plan.step_response_tokens;
  batch.scope_targets = plan.scope_targets;
  batch.step = plan.step;
  batch.epoch = plan.epoch;
  batch.micro_batch = plan.micro_batch;
  batch.num_micro_batches = plan.num_micro_batches;
  batch.cursor_after = plan.cursor_after;
  return batch;
}

std::size_t num_batch_tokens(const MicroBatchPlan& plan, const CollateOptions& options,
                             std::uint32_t max_length) {
  return shape_of(plan, options, max_length).num_tokens;
}

std::uint64_t BatchCost::with(std::span<const Sequence> sample, std::uint64_t& docs,
                              std::uint64_t& tokens, std::uint64_t& longest) const {
  docs = num_docs_ + sample.size(), tokens = num_tokens_, longest = longest_;
  for (const Sequence& sequence : sample) {
    tokens += sequence.length;
    longest = std::max<std::uint64_t>(longest, sequence.length);
  }
  return options_->packing ? tokens : docs * round_up(longest, options_->pad_multiple);
}

bool BatchCost::fits(std::span<const Sequence> sample) const {
  std::uint64_t docs = 0, tokens = 0, longest = 0;
  return with(sample, docs, tokens, longest) <= *options_->max_tokens_per_batch;
}

void BatchCost::add(std::span<const Sequence> sample) {
  with(sample, num_docs_, num_tokens_, longest_);
}

}  // namespace wmtp::data
