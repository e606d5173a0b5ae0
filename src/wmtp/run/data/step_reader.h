// The micro-batches of one optimizer step after the other, on the device.
#pragma once
#include <memory>
#include <optional>

#include "wmtp/data/plan/loader.h"
#include "wmtp/training/device_batch.h"
#include "wmtp/training/step.h"

namespace wmtp::run {

struct ReadStep {
  training::StepInput input;  // schedule still to be filled in
  data::Cursor cursor_after;
  std::vector<std::uint64_t> sample_ids;  // of this rank
};

// Signals of a frozen model that the batches of a set bring along. BORROWS.
struct SignalSource {
  data::SignalCache* cache = nullptr;  // null: none
  bool values = false;                 // of a value model; otherwise losses of a reference
  bool read = true;                    // false: new ones are kept, none is taken
};

class StepReader {
 public:
  struct Options {
    int num_heads = 1;
    Tensor inv_freq_F;
    std::optional<models::DropoutKey> dropout;  // none: evaluation. Its step is that of the batch
    SignalSource signals = {};
    models::BatchShape shape = models::BatchShape::exact;
  };
  StepReader(std::unique_ptr<data::Loader> loader, Options options)
      : loader_(std::move(loader)), options_(std::move(options)) {}

  // BLOCKS for the loader. Step number `step` (from 0) keys the dropout. Nothing: the end.
  std::optional<ReadStep> next(std::int64_t step);
  // One batch of a validation set with the facts of the whole set. Nothing: the end.
  struct EvaluationBatch {
    training::DeviceBatch batch;
    training::StepFacts facts;
  };
  std::optional<EvaluationBatch> next_evaluation();

  double wait_seconds() const { return loader_->wait_seconds(); }

 private:
  std::optional<data::HostBatch> next_on_host();  // BLOCKS for the loader
  training::DeviceBatch upload_batch(data::HostBatch& host, std::int64_t step) const;

  std::unique_ptr<data::Loader> loader_;
  Options options_;
};

}  // namespace wmtp::run
