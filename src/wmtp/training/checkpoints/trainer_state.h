// All of a run's state that is no tensor, as trainer_state.json keeps it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "wmtp/core/json.h"
#include "wmtp/optim/loss_scale.h"
#include "wmtp/optim/param_groups.h"
#include "wmtp/training/run/train_state.h"
#include "wmtp/weighting/ema.h"

namespace wmtp::training {

// Who saved it: may differ on resume, and is told then.
struct SavedLayout {
  int world_size = 1;
  std::string strategy, precision;
  std::int64_t batch_size = 1, accumulation = 1;
};

struct SavedState {
  TrainState train;
  std::uint64_t seed = 0;            // key of every counter-based generator
  std::int64_t applied_updates = 0;  // of the optimizer
  std::vector<optim::GroupSettings> groups;
  std::int64_t planned_steps = 0;
  std::optional<optim::LossScale::State> loss_scale;
  std::optional<weighting::EmaState> ema;
  SavedLayout layout;
};

OrderedJson to_json(const SavedState& state);
// Error checkpoint naming a field that is missing or of another kind.
SavedState saved_state_from_json(const Json& json);

}  // namespace wmtp::training
