// Steps whose numbers the host has not read yet: it reads one step late, so that the device never
// waits for it.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "wmtp/core/time.h"
#include "wmtp/run/checkpoints/train_state.h"
#include "wmtp/run/report/run_report.h"
#include "wmtp/run/report/system_report.h"
#include "wmtp/training/step.h"

namespace wmtp::run {

struct PendingStep {
  training::PendingResult pending;
  StepRecord record;
  std::vector<std::uint64_t> sample_ids;
  std::size_t signals = 0;  // seen when it was started
  SystemNumbers system;     // of a step that is reported
  RankNumbers own_times;    // of the last step of a window
  Clock::time_point started;
};

class PendingSteps {
 public:
  void push(PendingStep step) { steps_.push_back(std::move(step)); }
  // The oldest one with its result in its record, unless only the newest `keep`, which may still be
  // running, are left. BLOCKS until the device has finished it.
  std::optional<PendingStep> read(std::size_t keep);

 private:
  std::deque<PendingStep> steps_;
};

// Counts a step that was not applied. Error numeric, naming its samples, after `max_bad_steps`
// non-finite ones in a row.
void count_skipped(const PendingStep& step, std::int64_t max_bad_steps, TrainState& state);

}  // namespace wmtp::run
