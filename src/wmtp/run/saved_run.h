// What a checkpoint says of the run that wrote it.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "wmtp/config/load.h"
#include "wmtp/run/checkpoints/checkpointer.h"
#include "wmtp/run/data/run_data.h"
#include "wmtp/run/plan/model_plan.h"
#include "wmtp/run/profile/step_range.h"
#include "wmtp/run/stages/stage_models.h"

namespace wmtp::run {

// What the command line adds to the configuration.
struct TrainerOptions {
  std::string run_id;    // the same on all ranks, and at every start of one job
  std::string start_id;  // of this start; the same on all ranks
  std::string version;   // of the program
  bool allow_fresh_start = false;
  RunProgress* progress = nullptr;  // BORROWED; kept up to date
  // The training thread waits for a save at most this long without progress. Its own rank's: who
  // waits for another rank has the limits of checkpoint::SaveContext.
  std::chrono::milliseconds save_limit = std::chrono::seconds(300);
  bool offline = false;  // nothing is sent: uploads stay queued
  // Of a rehearsal: the models have no more trunk blocks than this (plan/cut_plan.h).
  std::optional<std::int64_t> most_blocks = {};
  std::optional<StepRange> profile = {};  // steps to be profiled
};

// The same in every checkpoint of the run. `base_fingerprint`: rank 0's.
CheckpointOptions checkpoint_options(const config::ResolvedConfig& resolved,
                                     const TrainerOptions& options, const ModelPlan& plan,
                                     const RunData& data, const std::string& base_fingerprint);

struct SavedParts {
  const config::Config& config;
  const RunContext& context;
  const ModelPlan& plan;
  const RunData& data;
  training::TrainableModel& model;
  StageModels& stage;
};
// As of now. BLOCKS until the device has finished the newest step.
SavedState saved_state(const TrainState& state, std::int64_t num_steps, const SavedParts& parts);

}  // namespace wmtp::run
