// The model that a stage reads beside the one it trains, before it is loaded: the reference of
// rho1, the value model of verifiable.
#pragma once
#include <optional>
#include <string>

#include "wmtp/config/config.h"
#include "wmtp/run/plan/memory_plan.h"
#include "wmtp/run/plan/run_context.h"
#include "wmtp/training/frozen_model.h"

namespace wmtp::run {

struct FrozenPlan {
  std::string path;            // as the configuration names it
  models::ModelSource source;  // adapters merged
  training::FrozenModelOptions options;
  config::Placement placement = config::Placement::automatic;

  FrozenRequest memory_request() const;
};

// Reads headers only; nothing where the stage has none. Error config for another vocabulary or
// tokenizer than the policy's, and for a value model without a value head.
std::optional<FrozenPlan> plan_frozen(const config::Config& config, const RunContext& context,
                                      std::int64_t vocab_size,
                                      const std::filesystem::path& tokenizer_folder);

}  // namespace wmtp::run
