// Sees a loss that stands out from those before it (runtime.loss_spike). Losses are those of all
// ranks together, so that every rank comes to the same verdict; what it rests on is saved, so that
// a run which goes on from a checkpoint does, too.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "wmtp/config/config.h"
#include "wmtp/run/checkpoints/train_state.h"
#include "wmtp/run/report/run_report.h"

namespace wmtp::run {

struct FoundSpike {
  std::int64_t step = 0;
  double loss = 0;
  double median = 0, z = 0;  // of the losses before; how many deviations the loss is above it
  std::size_t num_before = 0;
  std::int64_t num_spikes = 0;  // of the run so far, with this one
};

// Takes in the loss of a step, unless the step was not applied. A spike is told when it begins, and
// the next one only after a loss that is none.
//   z = (loss - median) / max(1.4826 MAD, 0.01 |median|)
// with median and MAD (median of the distances to it) of the last `window` losses; from the 20th
// loss on, or the window's end where that is sooner. A loss that rises slowly widens the MAD with
// it: a straight line comes to z = 1.35, whatever its slope.
std::optional<FoundSpike> watch_loss(const config::LossSpike& options, const StepRecord& record,
                                     LossHistory& history);

// Error numeric, naming the samples of that step, where the configuration says `stop`.
void stop_at_spike(const config::LossSpike& options, const FoundSpike& spike,
                   const std::vector<std::uint64_t>& sample_ids);

}  // namespace wmtp::run
