// All of a run's state that is no tensor, as trainer_state.json keeps it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "wmtp/core/json.h"
#include "wmtp/optim/loss_scale.h"
#include "wmtp/optim/param_groups.h"
#include "wmtp/run/checkpoints/train_state.h"
#include "wmtp/weighting/ema.h"

namespace wmtp::run {

// Who saved it: may differ when a run goes on, and is told then.
struct SavedLayout {
  int world_size = 1;
  std::string strategy, precision;
  std::int64_t batch_size = 1, accumulation = 1;
};

// A run that goes on takes up `train`, `applied_updates`, `loss_scale` and the mean, deviation and
// count of `ema`, and refuses another `seed` or another cursor's data. The rest says how the state
// came about and is not acted upon, because keys of the configuration decide it that may change
// (class F; compare_config tells each change): rates and decays of the groups, momentum and warm-up
// of the Ema, and the planned steps, which are counted anew from the cursor, n_epochs, max_steps
// and the samples of a step. The schedule's position is train.step.
struct SavedState {
  TrainState train;
  std::uint64_t seed = 0;                    // key of every counter-based generator
  std::int64_t applied_updates = 0;          // of the optimizer
  std::vector<optim::GroupSettings> groups;  // as they were
  std::int64_t planned_steps = 0;            // as they were
  std::optional<optim::LossScale::State> loss_scale;
  std::optional<weighting::EmaState> ema;
  SavedLayout layout;
};

OrderedJson to_json(const SavedState& state);
// Error checkpoint naming a key that is missing, unknown or of another kind, at any depth; Error
// config for another version.
SavedState saved_state_from_json(const Json& json);

}  // namespace wmtp::run
