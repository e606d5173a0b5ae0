// Saves of a training state, timed: what `wmtp bench checkpoint` runs.
#pragma once
#include <numeric>
#include <string>
#include <vector>

#include "wmtp/comm/session.h"

namespace wmtp::bench {

struct CheckpointFlags {
  std::string preset = "small", out, device = "cpu";
  int rounds = 5, turns = 3, steps = 40, every = 40, batch = 1, seq = 128, threads = 0;
  bool prepare = true;  // memory for the first copy
};

struct SaveTimes {
  std::vector<double> memcpy_s, blocked_s, plain_s, save_s, writer_s;
  std::vector<double> calm_s, saving_s;  // of each turn
  double first_blocked_s = 0;
  int num_saves = 0, num_left_out = 0;
  std::size_t bytes = 0;

  double slowdown() const { return sum(saving_s) / sum(calm_s) - 1; }
  double lost_s_per_save() const { return (sum(saving_s) - sum(calm_s)) / num_saves; }
  static double sum(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
  }
};

// BLOCKS until all turns have run. Error io for a folder that cannot be written.
SaveTimes time_saves(const CheckpointFlags& flags, comm::ProcessGroupSession& group,
                     c10::Device device);

}  // namespace wmtp::bench
