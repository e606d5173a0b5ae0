// The signals of a stage's frozen model, kept on disk from run to run (training.signal_cache): what
// a batch finds there is not computed again, and where everything is there the model is not loaded.
#pragma once
#include <deque>
#include <memory>
#include <optional>

#include "wmtp/comm/communicator.h"
#include "wmtp/config/config.h"
#include "wmtp/data/plan/signal_cache.h"
#include "wmtp/run/data/run_data.h"
#include "wmtp/run/data/step_reader.h"

namespace wmtp::run {

class StageSignals {
 public:
  // COLLECTIVE, BLOCKS: rank 0 reads the model's weights once to name the cache. Without a frozen
  // model, or with training.signal_cache off, there is none.
  StageSignals(const config::Config& config, const RunContext& context,
               const std::optional<FrozenPlan>& frozen, const RunData& data,
               comm::Communicator& group);

  bool complete() const { return complete_; }  // every row of both sets, on all ranks
  // Keeps what the model computes from now on. A sharded one computes on all ranks or on none, so
  // that beside it only a complete cache is read.
  void follow(training::FrozenModel& model);
  SignalSource train() const { return source(train_.get()); }
  SignalSource validation() const { return source(validation_.get()); }

  // Signals seen so far; and writes them up to a mark whose numbers the host may read.
  std::size_t mark() const { return num_seen_; }
  void write(std::size_t mark);

 private:
  struct Seen {
    data::SignalCache* cache;
    std::vector<data::SignalRow> rows;
    Tensor signal_N;  // on the host
  };
  SignalSource source(data::SignalCache* cache) const { return {cache, values_, reads_}; }
  void see(const training::DeviceBatch& batch, const Tensor& signal_N);

  bool values_ = false, reads_ = true, complete_ = false;
  std::unique_ptr<data::SignalCache> train_, validation_;
  std::deque<Seen> seen_;  // and not written
  std::size_t num_seen_ = 0;
};

}  // namespace wmtp::run
