#include "wmtp/run/plan/sizing/preset_request.h"

#include <fmt/format.h>

#include "wmtp/model/presets.h"

namespace wmtp::run {

config::LoadRequest preset_request(const PresetRun& run) {
  config::LoadRequest request;
  request.file = "--model";
  request.text =
      "experiment: {name: plan, stage: baseline}\n"
      "models: {policy: {path: micro}}\n"
      "dataset: {train: train.jsonl}\n"
      "training: {learning_rate: 1e-5}\n"
      "runtime: {cache_dir: cache}\n";  // which nobody writes to; the usual one asks for HOME
  request.defaults = "none";
  request.check_paths = false;
  request.overrides = {"models.policy.path=" + run.model,
                       fmt::format("training.batch_size={}", run.batch_size),
                       fmt::format("dataset.max_length={}", run.max_length)};
  if (model::find_preset(run.model)) request.overrides.emplace_back("models.policy.init=random");
  if (run.lora_rank) {
    request.overrides.emplace_back("training.use_lora=true");
    request.overrides.push_back(fmt::format("training.lora.rank={}", *run.lora_rank));
  }
  return request;
}

}  // namespace wmtp::run
