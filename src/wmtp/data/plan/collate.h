// Lays the sequences of a micro-batch out as a HostBatch: end to end (packed) or in rows (padded).
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "wmtp/data/options.h"
#include "wmtp/data/plan/host_batch.h"
#include "wmtp/data/plan/step_planner.h"

namespace wmtp::data {

// `max_length` = T, for padding to it.
HostBatch collate(const MicroBatchPlan& plan, const CollateOptions& options,
                  std::uint32_t max_length, const std::shared_ptr<HostAllocator>& allocator);

// Tokens of that batch, padding and filler included: what the model computes.
std::size_t num_batch_tokens(const MicroBatchPlan& plan, const CollateOptions& options,
                             std::uint32_t max_length);

// Whether a micro-batch stays within max_tokens_per_batch, sample by sample.
class BatchCost {
 public:
  explicit BatchCost(const CollateOptions& options) : options_(&options) {}
  bool fits(std::span<const Sequence> sample) const;
  void add(std::span<const Sequence> sample);

 private:
  std::uint64_t with(std::span<const Sequence> sample, std::uint64_t& docs, std::uint64_t& tokens,
                     std::uint64_t& longest) const;
  const CollateOptions* options_;
  std::uint64_t num_docs_ = 0, num_tokens_ = 0, longest_ = 0;
};

}  // namespace wmtp::data
