#include "wmtp/data/plan/host_batch.h"

#include <cstring>
#include <new>

#include "wmtp/core/error.h"
#include "wmtp/data/tokens/truncation.h"

namespace wmtp::data {
namespace {

constexpr std::size_t kBatchAlignment = 64;

class HeapAllocator : public HostAllocator {
 public:
  std::byte* allocate(std::size_t bytes) override {
    return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kBatchAlignment}));
  }
  void release(std::byte* memory, std::size_t) override {
    ::operator delete (memory, std::align_val_t{kBatchAlignment});
  }
};

// Hands out aligned spans; run once without memory to learn the size, once with it.
class Layout {
 public:
  explicit Layout(std::byte* memory) : memory_(memory) {}
  template <class T>
  void place(std::span<T>& field, std::size_t count) {
    if (memory_) field = {reinterpret_cast<T*>(memory_ + used_), count};
    used_ = (used_ + count * sizeof(T) + kBatchAlignment - 1) / kBatchAlignment * kBatchAlignment;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

std::size_t lay_out(HostBatch& batch, const BatchSizes& sizes, std::byte* memory) {
  Layout layout(memory);
  layout.place(batch.tokens, sizes.num_tokens);
  layout.place(batch.positions, sizes.num_tokens);
  layout.place(batch.target_mask, sizes.num_tokens);
  layout.place(batch.doc_start, sizes.num_docs + 1);
  layout.place(batch.prompt_len, sizes.num_docs);
  layout.place(batch.doc_len, sizes.num_docs);
  layout.place(batch.sample_id, sizes.num_docs);
  layout.place(batch.sample_part, sizes.num_docs);
  layout.place(batch.reward, sizes.num_docs);
  layout.place(batch.has_reward, sizes.num_docs);
  layout.place(batch.pair_role, sizes.num_docs);
  layout.place(batch.length_bin, sizes.num_docs);
  layout.place(batch.doc_flags, sizes.num_docs);
  layout.place(batch.head_targets, sizes.num_heads);
  layout.place(batch.step_head_targets, sizes.num_heads);
  return layout.used();
}

}  // namespace

std::shared_ptr<HostAllocator> heap_allocator() {
  return std::make_shared<HeapAllocator>();
}

HostBatch make_host_batch(const BatchSizes& sizes,
                          const std::shared_ptr<HostAllocator>& allocator) {
  HostBatch batch;
  const std::size_t bytes = lay_out(batch, sizes, nullptr);
  batch.memory = {allocator->allocate(bytes), HostRelease{allocator, bytes}};
  std::memset(batch.memory.get(), 0, bytes);
  lay_out(batch, sizes, batch.memory.get());
  return batch;
}

namespace {

void check_document(const HostBatch& batch, std::size_t doc, std::vector<std::int64_t>& targets) {
  const auto begin = static_cast<std::size_t>(batch.doc_start[doc]);
  const auto length = static_cast<std::size_t>(batch.doc_len[doc]);
  const auto prompt = static_cast<std::size_t>(batch.prompt_len[doc]);
  WMTP_CHECK(batch.doc_start[doc + 1] > batch.doc_start[doc], "doc_start does not rise");
  const auto extent = static_cast<std::size_t>(batch.doc_start[doc + 1]) - begin;
  WMTP_CHECK(length > 0 && length <= extent && prompt <= length,
             "a document longer than its place");
  WMTP_CHECK(batch.row_stride > 0 || length == extent, "a gap between packed documents");
  const bool filler = batch.doc_flags[doc] & kDocFiller;
  for (std::size_t i = 0; i < extent; ++i) {
    WMTP_CHECK(batch.positions[begin + i] == static_cast<std::int32_t>(i),
               "positions do not match");
    const bool is_target = !filler && i >= prompt && i < length;
    WMTP_CHECK(batch.target_mask[begin + i] == (is_target ? 1 : 0), "target_mask does not match");
  }
  for (std::size_t head = 0; head < targets.size() && !filler; ++head)
    targets[head] +=
        num_targets(static_cast<std::uint32_t>(length), static_cast<std::uint32_t>(prompt),
                    static_cast<std::uint32_t>(head + 1));
}

}  // namespace

void check_host_batch(const HostBatch& batch) {
  WMTP_CHECK(batch.doc_start.size() == batch.num_docs() + 1 && batch.doc_start[0] == 0,
             "doc_start");
  WMTP_CHECK(static_cast<std::size_t>(batch.doc_start.back()) == batch.num_tokens(),
             "doc_start's end");
  std::vector<std::int64_t> targets(batch.head_targets.size());
  for (std::size_t doc = 0; doc < batch.num_docs(); ++doc) check_document(batch, doc, targets);
  for (std::size_t head = 0; head < targets.size(); ++head) {
    WMTP_CHECK(batch.head_targets[head] == targets[head], "head_targets are not the mask's counts");
    WMTP_CHECK(batch.head_targets[head] <= batch.step_head_targets[head],
               "step_head_targets too small");
  }
}

}  // namespace wmtp::data
