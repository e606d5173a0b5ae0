#include "wmtp/run/stages/scored_weights.h"

#include <fmt/format.h>

#include <map>

#include "wmtp/checkpoint/format/trainer_state.h"
#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/core/error.h"
#include "wmtp/models/merged_source.h"
#include "wmtp/models/remote/file_systems.h"
#include "wmtp/models/run_paths.h"
#include "wmtp/run/checkpoints/trainer_state.h"

namespace wmtp::run {
namespace {

// Every parameter of the model must be in the source, of the same shape.
void require_shapes(const models::ModelSource& source, const model::ModelConfig& wanted,
                    const std::string& name) {
  std::map<std::string, std::vector<std::int64_t>> there;
  for (const layout::UnitSpec& unit : model::model_units(source.config))
    for (const layout::ParamSpec& param : unit.params) there[param.name] = param.shape;
  for (const layout::UnitSpec& unit : model::model_units(wanted))
    for (const layout::ParamSpec& param : unit.params) {
      const auto found = there.find(param.name);
      if (found == there.end() || found->second != param.shape)
        refuse_score(
            fmt::format("--checkpoint {} has {} {}, which the configuration's model has", name,
                        found == there.end() ? "no" : "another shape of", param.name),
            "name a checkpoint of that model");
    }
}

// The checkpoint's weights; adapters and a value head that it does not have are the run's.
parallel::ReadParam over_run(const models::ModelSource& source, const parallel::ReadParam& run) {
  return [fill = source.fill, has_value = source.value_head.has_value(),
          has_lora = source.lora.has_value(),
          run](const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
    const bool is_value = param.name.starts_with("value_head.");
    const bool is_lora = param.name.find(".lora_") != param.name.npos;
    const bool of_run = (is_value && !has_value) || (is_lora && !has_lora);
    (of_run ? run : fill)(param, begin, out);
  };
}

std::optional<weighting::EmaState> saved_tracker(const std::filesystem::path& folder) {
  const auto files = models::files_of(folder);
  checkpoint::CheckpointReader reader(*files, folder);
  return saved_state_from_json(
             checkpoint::parse_trainer_state(reader.text(checkpoint::kTrainerStateFile),
                                             folder.filename().string()))
      .ema;
}

}  // namespace

void refuse_score(const std::string& fact, const std::string& hint) {
  throw Error(ErrorKind::config, "score", fact, hint);
}

ScoredWeights open_scored_weights(const ScoredModel& asked, const ModelPlan& plan,
                                  const weights::Environment& environment, bool with_tracker) {
  const std::string& name = asked.name;
  models::ModelSource source =
      models::open_model_source(name, environment, /*seed=*/0, asked.base_model);
  require_shapes(source, plan.assemble.model, name);
  if (source.lora != plan.assemble.transformer.lora) source = models::merged_source(source);
  const auto& head = plan.assemble.value_head;
  if (source.value_head && head && *source.value_head != head->type)
    refuse_score(fmt::format("--checkpoint {} has a {} value head, training.value_head.type is {}",
                             name, model::name_of(*source.value_head), model::name_of(head->type)));
  ScoredWeights scored{
      .fill = over_run(source, plan.fill), .stored_nf4 = source.stored_nf4, .tracker = {}};
  if (with_tracker && !source.read_from.empty() && models::is_checkpoint(source.read_from.front()))
    scored.tracker = saved_tracker(source.read_from.front());
  return scored;
}

}  // namespace wmtp::run
