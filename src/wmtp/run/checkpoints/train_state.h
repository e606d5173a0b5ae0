// What outlives a step besides weights and optimizer: all of it is saved, and nothing else is
// needed to go on exactly.
#pragma once
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/data/plan/cursor.h"

namespace wmtp::run {

struct BestRecord {
  std::string metric;
  double value = 0;
  std::int64_t step = 0;
  bool operator==(const BestRecord&) const = default;
};

// lr_scheduler.type plateau.
struct PlateauState {
  double factor = 1;
  std::optional<double> best;
  std::int64_t num_waited = 0;  // validations in a row without improvement
  bool operator==(const PlateauState&) const = default;
};

// runtime.loss_spike.
struct LossHistory {
  static constexpr std::size_t kLongest = 10'000;  // that a configuration may ask for

  std::vector<double> recent;   // losses of the last steps that were applied, the newest last
  bool is_high = false;         // the last one is part of a spike that was told
  std::int64_t num_spikes = 0;  // told so far
  bool operator==(const LossHistory&) const = default;
};

struct TrainState {
  std::int64_t step = 0;  // optimizer steps done, skipped ones included
  data::Cursor cursor;
  std::uint64_t samples_seen = 0, tokens_seen = 0;
  std::int64_t skipped_steps = 0, bad_in_a_row = 0;
  std::optional<BestRecord> best;
  std::int64_t validations_without_best = 0;  // early stopping
  PlateauState plateau;
  LossHistory losses;
  // Who the run is to a tracking server, whatever machine it goes on; empty: it was told none.
  std::string run_uid;
};

// Whose the run's folder is. Only who owns it writes there.
enum class FolderOwner { not_known, this_run, another };

// How far a run is, for whoever writes down how it ended. THREADS: any.
struct RunProgress {
  std::atomic<std::int64_t> step = -1, committed_step = -1;  // -1: none yet
  std::atomic<FolderOwner> folder = FolderOwner::not_known;
  std::atomic<std::int64_t> save_ms = 0;  // the longest save so far, from its step to its commit
};

}  // namespace wmtp::run
