// The weights that `wmtp score --checkpoint` puts in the place of a run's own.
#pragma once
#include <optional>
#include <string>

#include "wmtp/run/plan/model_plan.h"
#include "wmtp/weighting/ema.h"

namespace wmtp::run {

struct ScoredWeights {
  parallel::ReadParam fill;  // adapters and a value head that the checkpoint lacks are the run's
  parallel::ReadNf4 stored_nf4;                // the checkpoint's
  std::optional<weighting::EmaState> tracker;  // of a checkpoint that has one
};

struct ScoredModel {
  const std::string& name;
  const std::string& base_model;  // of its adapters; empty: the one it names
};

// Error config for a model of other shapes, and for another kind of value head. `with_tracker`: the
// stage has one, to be read from a checkpoint.
ScoredWeights open_scored_weights(const ScoredModel& asked, const ModelPlan& plan,
                                  const weights::Environment& environment, bool with_tracker);

[[noreturn]] void refuse_score(const std::string& fact, const std::string& hint = {});

}  // namespace wmtp::run
