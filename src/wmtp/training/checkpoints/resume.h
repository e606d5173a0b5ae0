// Going on where a run stopped: which checkpoint, whether it belongs to this configuration, and its
// state back into the model.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "wmtp/comm/session.h"
#include "wmtp/commit/reader.h"
#include "wmtp/config/load.h"
#include "wmtp/training/checkpoints/checkpointer.h"

namespace wmtp::training {

struct FoundState {
  std::string name;
  SavedState state;
  std::unique_ptr<commit::CheckpointReader> reader;
};

// COLLECTIVE, BLOCKS. By checkpoint.resume: the newest that verifies, a named one, or none. Errors
// as commit::choose_checkpoint has them.
std::optional<FoundState> find_state(const config::Config& config, const std::string& model,
                                     bool allow_fresh_start, const std::string& attempt,
                                     comm::ProcessGroupSession& session);

// config.yaml of a checkpoint.
config::ResolvedConfig load_saved_config(const std::string& saved_yaml,
                                         const config::Environment& environment);

// The key that names the model a run starts from.
std::string_view base_key(const config::Config& config);

// Whether the run's base is the one of the checkpoint, by content. Error config with both
// fingerprints where it is not: always when the checkpoint leaves the base out, else unless
// base_key() is in checkpoint.allow_config_change. False also for a checkpoint that knows no
// fingerprint.
bool compare_base(const commit::Manifest& saved, const std::string& fingerprint,
                  const config::Config& config);

// Error config listing the keys of class S that differ and are not in
// checkpoint.allow_config_change; the others are returned as "key: old -> new". With `same_base`
// its path may differ: it was moved.
std::vector<std::string> compare_config(const config::ResolvedConfig& saved,
                                        const config::ResolvedConfig& now, bool same_base);

// Weights, moments and counters of this rank; `base` fills what a LoRA-only checkpoint leaves out.
void restore(FoundState& found, TrainableModel& model, weighting::EmaTracker* ema,
             const parallel::Fill& base);

}  // namespace wmtp::training
