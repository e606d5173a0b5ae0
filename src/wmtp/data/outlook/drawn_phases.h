// Which difficulty bins a run draws from, and when.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "wmtp/data/plan/dataset.h"

namespace wmtp::data {

// Steps are counted from 0.
struct RunLength {
  std::uint64_t num_epochs_millionths = 1'000'000;
  std::uint64_t samples_per_step = 1;
  std::uint64_t max_steps = 0;  // 0: no limit besides the epochs
};
std::uint64_t num_steps(const RunLength& length, std::uint64_t samples_per_epoch);

// A part of an epoch with one set of weights.
struct DrawnPhase {
  std::uint64_t epoch = 0;
  std::uint64_t first_place = 0, num_samples = 0;  // of the epoch, as far as the run goes
  std::uint64_t first_step = 0, last_step = 0;
  std::vector<std::uint64_t> drawn;  // samples of each bin
  std::uint64_t num_correct = 0;     // samples; of pairs none
};

struct DrawnPhases {
  std::vector<std::string> bins;  // names; none: the data has no difficulty bins
  std::vector<DrawnPhase> phases;
  // Epochs that were drawn here. Where the run has more, they are mixed as the last of these.
  std::uint64_t num_epochs = 0;
};

// What the sampler draws, epoch by epoch, until the schedule has reached its last entry; without a
// curriculum, epoch 0. At most 64 epochs. REQUIRES training data.
DrawnPhases drawn_phases(const Dataset& dataset, const RunLength& length);

}  // namespace wmtp::data
