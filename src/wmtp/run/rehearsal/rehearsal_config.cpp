#include "wmtp/run/rehearsal/rehearsal_config.h"

#include <algorithm>

#include "wmtp/config/derived.h"
#include "wmtp/data/excerpt.h"
#include "wmtp/data/options_from_config.h"

namespace wmtp::run {
namespace {

namespace fs = std::filesystem;

// What is asked of all rows cannot be asked of a hundred.
void read_beginnings(config::Config& config, const fs::path& folder, int world) {
  config::Dataset& dataset = config.dataset;
  const auto train = data::dataset_options(config, data::Split::train);
  dataset.train = data::excerpt_files(train, train_excerpts(folder));
  if (dataset.validation) {
    const auto validation = data::dataset_options(config, data::Split::validation);
    dataset.validation = data::excerpt_files(validation, validation_excerpts(folder));
  }
  config::DataSampling& sampling = config.data_sampling;
  sampling.n_samples.reset();
  sampling.val_n_samples =
      config.training.batch_size * config::accumulation_steps(config, world) * world;
  sampling.on_shortage = config::OnShortage::cap;
  config.training.n_epochs = std::max(1.0, config.training.n_epochs);
}

void save_once(config::Checkpoint& checkpoint, const fs::path& folder) {
  checkpoint.save_dir = folder / "checkpoints";
  checkpoint.save_checkpoint_every.reset();
  checkpoint.save_every_steps.reset();
  checkpoint.save_every_minutes.reset();
  checkpoint.save_best = false;
  checkpoint.save_final = true;
  checkpoint.max_failed_saves = 1;
  checkpoint.resume = {config::ResumeFrom::Kind::never, {}};
  checkpoint.verify = config::VerifyLevel::full;
  checkpoint.s3_upload = false;
  checkpoint.export_on_finish = config::ExportFormat::none;
}

}  // namespace

fs::path train_excerpts(const fs::path& folder) {
  return folder / "train";
}

fs::path validation_excerpts(const fs::path& folder) {
  return folder / "validation";
}

config::ResolvedConfig rehearsal_config(const config::ResolvedConfig& resolved,
                                        const fs::path& folder, RehearsalData data, int world) {
  config::ResolvedConfig changed = resolved;
  config::Config& config = changed.config;
  if (data == RehearsalData::beginnings) read_beginnings(config, folder, world);
  if (data != RehearsalData::as_is) config.dataset.cache_dir = folder / "cache";
  config.runtime.run_dir = folder;
  config.runtime.cache_dir = folder / "cache";
  save_once(config.checkpoint, folder);
  config::Training& training = config.training;
  training.max_steps = 1;
  training.max_bad_steps = 1;
  training.log_interval = 1;
  training.eval_at_start = false;
  training.early_stop_patience.reset();
  training.signal_cache = false;
  config.mlflow.experiment.clear();
  config.tracking.jsonl = config.tracking.tensorboard = false;
  config.distributed.state_check_every = 1;
  return changed;
}

}  // namespace wmtp::run
