// What a run will spend its time on, told before it begins: beside data/summary.h, which counts
// rows, this counts what is computed.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/core/json.h"
#include "wmtp/data/outlook/drawn_phases.h"
#include "wmtp/data/outlook/epoch_batches.h"
#include "wmtp/data/outlook/repeated_rows.h"
#include "wmtp/data/summary.h"

namespace wmtp::data {

struct DataOutlook {
  StepShape shape;
  bool packing = true;  // dataset.packing
  std::uint32_t max_length = 0;
  Truncate truncate = Truncate::right;
  EpochBatches batches;
  std::uint64_t num_steps = 0;  // of the run
  DrawnPhases phases;
  std::optional<RepeatedRows> repeated;
  std::string first_repeated;                     // "train.jsonl:18 as train.jsonl:3"
  std::uint64_t num_tokens = 0, num_targets = 0;  // of the sequences of epoch 0

  const LaidOut& laid_out() const { return packing ? batches.packed : batches.padded; }
  std::uint64_t num_padding() const { return laid_out().num_tokens - num_tokens; }
  std::uint64_t num_prompt() const { return num_tokens - num_targets; }
};

struct OutlookRequest {
  StepShape shape;
  CollateOptions collate;
  RunLength length;
};

// REQUIRES training data, and the summary to be that of `dataset`. BLOCKS: reads every token once.
DataOutlook look_ahead(const std::shared_ptr<const Dataset>& dataset, const DataSummary& summary,
                       const OutlookRequest& request);
OrderedJson to_json(const DataOutlook& outlook);
std::vector<std::string> to_lines(const DataOutlook& outlook);

}  // namespace wmtp::data
