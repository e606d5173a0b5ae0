// From a configuration to the model that a run trains: its shape, what of it learns, how it is
// spread over ranks, and where its weights come from.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "wmtp/config/config.h"
#include "wmtp/core/error.h"
#include "wmtp/models/base_source.h"
#include "wmtp/run/plan/frozen_plan.h"
#include "wmtp/run/plan/memory_plan.h"
#include "wmtp/run/plan/run_context.h"
#include "wmtp/training/assemble.h"

namespace wmtp::run {

struct ModelPlan {
  training::AssembleOptions assemble;  // without the objective
  bool predicts = true;                // the prediction heads are run: all stages but critic
  parallel::ReadParam fill;  // weights of every trainable unit, value head and adapters included
  parallel::ReadNf4 stored_nf4;                   // of the base, as ModelSource
  std::filesystem::path tokenizer_folder;         // empty: the model brings none and none is named
  std::filesystem::path generation_config;        // the base's; empty: it has none
  std::string base_model;                         // as the user named it
  std::filesystem::path base_folder;              // where that was found; empty: a preset
  std::function<std::string()> base_fingerprint;  // ModelSource::fingerprint of base_model
  bool adapters_suffice = false;     // base_model holds all that an adapter of this run does not
  std::string recompute_reason;      // what `auto` chose, or empty
  std::optional<FrozenPlan> frozen;  // the stage's, to be loaded beside
  MemoryRequest memory_request;      // of a rank, with what was chosen
  MemoryPlan memory;                 // of that request
};

// The models that a configuration names: all that planning reads of a disk.
struct OpenedModels {
  models::BaseSource base;
  std::filesystem::path tokenizer_folder;
  std::optional<FrozenPlan> frozen;
};
// Error config for what cannot be opened, or does not go together. Reads headers only.
OpenedModels open_models(const config::Config& config, const RunContext& context);

// Error config for shapes that contradict each other, a model that does not fit (with the plan's
// table), a critic without a trunk. Reads headers only.
ModelPlan plan_model(const config::Config& config, const RunContext& context);
// The same with models opened before. REQUIRES that they are those of this configuration's sections
// `experiment` and `models` on a device of this kind.
ModelPlan plan_model(const config::Config& config, const RunContext& context,
                     const OpenedModels& models);
// Whether planning threw `error` because the model does not fit.
bool is_too_large(const Error& error);

}  // namespace wmtp::run
