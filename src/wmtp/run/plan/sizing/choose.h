// The fastest settings that fit: what `wmtp plan --choose` proposes.
#pragma once
#include <optional>

#include "wmtp/run/plan/sizing/sweep.h"

namespace wmtp::run {

struct ChooseOptions {
  std::vector<SweepAxis> axes;  // what may be chosen; empty: recompute, strategy and micro-batch
  // The samples of a step are for the chooser to set too (one micro-batch a step); otherwise they
  // stay, divided into other micro-batches.
  bool any_samples = false;
};

struct Chosen {
  SizedRun run;               // with its speed
  std::size_t num_sized = 0;  // candidates that were looked at
  std::size_t num_fitting = 0;
};

// Of the runs that fit (10 % for the allocator included) the one with the most expected tokens a
// second; of those within 1 % of it, which a prediction does not tell apart, the smallest. Nothing
// where none fits. Never changes what is computed: precision, lengths and the samples of a step are
// the configuration's unless an axis names them.
std::optional<Chosen> choose(RunSizer& sizer, const SizedRun& base, const ChooseOptions& options);

// Of `runs`, all of which fit and have their speed, the one to take; null for none.
const SizedRun* best_of(const std::vector<SizedRun>& runs);

}  // namespace wmtp::run
