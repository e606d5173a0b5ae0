// What the loader hands to training: one micro-batch in host memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "wmtp/data/plan/cursor.h"
#include "wmtp/data/plan/epoch_view.h"

namespace wmtp::data {

inline constexpr std::uint64_t kFillerId = ~std::uint64_t{0};  // of a document that is padding

// Where batches live: plain or pinned memory. THREADS: called from the loader's threads and from
// those that drop batches.
class HostAllocator {
 public:
  virtual ~HostAllocator() = default;
  virtual std::byte* allocate(std::size_t bytes) = 0;  // aligned to 64
  virtual void release(std::byte* memory, std::size_t bytes) = 0;
};
std::shared_ptr<HostAllocator> heap_allocator();

struct HostRelease {
  std::shared_ptr<HostAllocator> allocator;
  std::size_t bytes = 0;
  void operator()(std::byte* memory) const { allocator->release(memory, bytes); }
};

// N tokens, D documents, H heads. Packed: documents end to end, the last may be a filler. Padded:
// document d fills row d of row_stride tokens from its left. OWNS its memory; moved, never copied.
struct HostBatch {
  std::span<std::int32_t> tokens, positions;    // N; position inside the document
  std::span<std::int32_t> doc_start;            // D+1, cumulative
  std::int32_t row_stride = 0;                  // 0 = packed
  std::span<std::int32_t> prompt_len, doc_len;  // D: P, n
  std::span<std::uint8_t> target_mask;          // N: m
  std::span<std::uint64_t> sample_id;           // D
  std::span<std::uint32_t> sample_part;         // D: of a sample that is several documents
  std::span<float> reward;                      // D: R
  std::span<std::uint8_t> has_reward;           // D
  std::span<std::uint8_t> pair_role;            // D: PairRole; the partner is the neighbour
  std::span<std::int16_t> length_bin;           // D
  std::span<std::uint8_t> doc_flags;            // D: DocFlag
  std::vector<float> ref_nll, value;            // N, or empty: cached signals
  std::span<std::int64_t> head_targets;         // H, of this micro-batch
  std::span<std::int64_t> step_head_targets;    // H, of the whole step over ranks and micro-batches
  std::int64_t step_sequences = 0, step_pairs = 0, step_response_tokens = 0;
  std::shared_ptr<const std::vector<std::int64_t>> scope_targets;  // see MicroBatchPlan

  std::uint64_t step = 0;  // counted from where the loader began
  std::uint32_t micro_batch = 0, num_micro_batches = 1;
  std::uint64_t epoch = 0;
  Cursor cursor_after;  // state once the step has ended, applied or skipped

  std::size_t num_tokens() const { return tokens.size(); }
  std::size_t num_docs() const { return doc_len.size(); }
  bool is_last_of_step() const { return micro_batch + 1 == num_micro_batches; }

  std::unique_ptr<std::byte, HostRelease> memory;
};

struct BatchSizes {
  std::size_t num_tokens = 0, num_docs = 0, num_heads = 0;
};
// A batch of that size with zeros everywhere.
HostBatch make_host_batch(const BatchSizes& sizes, const std::shared_ptr<HostAllocator>& allocator);

// ErrorKind::internal where the batch contradicts itself: doc_start not rising, positions wrong, a
// target outside its document, head_targets not the counts of the mask.
void check_host_batch(const HostBatch& batch);

}  // namespace wmtp::data
