#include "wmtp/run/saved_run.h"

#include "wmtp/config/derived.h"
#include "wmtp/model/hf_config.h"
#include "wmtp/models/model_name.h"

namespace wmtp::run {

CheckpointOptions checkpoint_options(const config::ResolvedConfig& resolved,
                                     const TrainerOptions& options, const ModelPlan& plan,
                                     const RunData& data, const std::string& base_fingerprint) {
  const config::Config& config = resolved.config;
  CheckpointOptions checkpoints;
  checkpoints.save_dir = config.checkpoint.save_dir;
  checkpoints.model = models::model_name(config);
  checkpoints.run_id = options.run_id;
  checkpoints.start_id = options.start_id;
  checkpoints.config_yaml = resolved.to_yaml();
  model::ExportExtras extras;
  extras.heads_inside = true;
  if (plan.assemble.value_head) extras.value_head = plan.assemble.value_head->type;
  checkpoints.model_config = model::hf_config_text(plan.assemble.model, "float32", extras);
  checkpoints.fingerprints = {resolved.hash(), data.train().corpus().data_fingerprint(),
                              data.tokenizer().fingerprint(), base_fingerprint};
  checkpoints.version = options.version;
  checkpoints.strategy = parallel::name_of(plan.assemble.parallel.strategy);
  checkpoints.lora_only = config::saves_trained_only(config);
  checkpoints.async = config.checkpoint.async;
  checkpoints.keep = config.checkpoint.save_total_limit;
  checkpoints.max_failed_saves = config.checkpoint.max_failed_saves;
  return checkpoints;
}

SavedState saved_state(const TrainState& state, std::int64_t num_steps, const SavedParts& parts) {
  SavedState saved;
  saved.train = state;
  saved.seed = static_cast<std::uint64_t>(parts.config.runtime.seed);
  saved.applied_updates = parts.model.optimizer().applied_steps().item<std::int64_t>();
  saved.groups = parts.plan.assemble.groups.groups;
  saved.planned_steps = num_steps;
  if (parts.model.loss_scale()) saved.loss_scale = parts.model.loss_scale()->state();
  if (parts.stage.ema()) saved.ema = parts.stage.ema()->read();
  saved.layout = {
      parts.context.world, std::string(parallel::name_of(parts.plan.assemble.parallel.strategy)),
      std::string(config::name_of(parts.config.training.optimizer.precision)),
      parts.config.training.batch_size, static_cast<std::int64_t>(parts.data.shape().accumulation)};
  return saved;
}

}  // namespace wmtp::run
