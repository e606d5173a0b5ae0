// What the micro-batches of an epoch cost, laid out end to end and in rows.
#pragma once
#include <cstdint>
#include <memory>

#include "wmtp/data/options.h"
#include "wmtp/data/plan/dataset.h"

namespace wmtp::data {

struct LaidOut {
  std::uint64_t num_batches = 0;  // over all ranks, empty ones left out
  std::uint64_t num_tokens = 0;   // padding included
  std::uint64_t largest = 0;      // tokens of the largest one
};

struct EpochBatches {
  LaidOut packed, padded;
};

// Epoch 0 of all ranks, both ways, whatever `collate` says of packing. The rank of `shape` does not
// matter. Reads lengths only, no tokens.
EpochBatches epoch_batches(const std::shared_ptr<const Dataset>& dataset, const StepShape& shape,
                           const CollateOptions& collate);

}  // namespace wmtp::data
