// Going on where a run stopped: which checkpoint, whether it belongs to this configuration, and its
// state back into the model.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/comm/session.h"
#include "wmtp/config/load.h"
#include "wmtp/run/checkpoints/checkpointer.h"
#include "wmtp/weights/model_folder.h"

namespace wmtp::run {

struct FindRequest {
  const config::Config& config;
  std::string model;
  std::string run_id, start_id;  // as in CheckpointOptions
  bool allow_fresh_start = false;
  bool offline = false;  // the bucket of storage.s3 is not asked
};

struct FoundState {
  std::string name;
  bool in_save_dir = true;  // false: --resume named one elsewhere
  SavedState state;
  std::shared_ptr<const storage::FileSystem> files;  // that it is read from
  std::unique_ptr<checkpoint::CheckpointReader> reader;
};

// COLLECTIVE, BLOCKS. By checkpoint.resume: the newest that verifies, which is fetched first where
// it is in the bucket of checkpoint.s3_upload alone (fetch_newest.h), a named one, or none. A
// launcher starts a run again with the words it began with: then a named one and none mean the
// beginning of the run, and what the run itself has saved since comes first. Errors as
// checkpoint::choose_checkpoint and checkpoint_to_resume (run_paths.h) have them.
std::optional<FoundState> find_state(const FindRequest& request,
                                     comm::ProcessGroupSession& session);

// What find_state would go on from, found by rank 0 alone and without a trace: nothing is fetched
// from a bucket or set aside. REQUIRES rank 0; the others need not take part. BLOCKS.
std::optional<FoundState> look_for_state(const FindRequest& request,
                                         const comm::ProcessGroupSession& session);

// Whether that is a checkpoint of this configuration: Errors as compare_config, require_same_seed
// and, unless `base_fingerprint` is empty, require_base have them. Returns what has changed.
std::vector<std::string> require_same_run(const FoundState& found,
                                          const config::ResolvedConfig& now,
                                          const std::string& base_fingerprint,
                                          const weights::Environment& environment);

// The key that names the model a run starts from.
std::string_view base_key(const config::Config& config);

// Whether that model is compared by content, so that its path may differ: it has files, and the
// checkpoint knows its fingerprint.
bool base_by_content(const checkpoint::Manifest& saved, const config::Config& config);

// Error config with both fingerprints where the run's base is another than the checkpoint's: always
// when the checkpoint leaves the base out. One with all weights lets it pass if base_key() is in
// checkpoint.allow_config_change, or if the base is drawn, which other keys decide.
void require_base(const checkpoint::Manifest& saved, const std::string& fingerprint,
                  const config::Config& config);

// Error config listing the keys of class S that differ and are not in
// checkpoint.allow_config_change; the others are returned as "key: old -> new". With `free_base`
// base_key() may differ.
std::vector<std::string> compare_config(const config::ResolvedConfig& saved,
                                        const config::ResolvedConfig& now, bool free_base);

// The generators have no state but their key: with another seed the run would not go on exactly.
// Error config unless checkpoint.allow_config_change names runtime.seed.
void require_same_seed(const SavedState& saved, const config::Config& config);

// Of the base, as ModelSource has them.
struct BaseWeights {
  parallel::ReadParam fill = {};
  parallel::ReadNf4 stored_nf4 = {};
};

// Weights, moments and counters of this rank; `base` fills what a LoRA-only checkpoint leaves out.
// Error checkpoint where manifest and trainer_state.json name different data or tokenizers. (The
// manifest's `config` is a label for people: what is compared is config.yaml, key by key.)
void restore(FoundState& found, training::TrainableModel& model, weighting::EmaTracker* ema,
             const BaseWeights& base);

}  // namespace wmtp::run
