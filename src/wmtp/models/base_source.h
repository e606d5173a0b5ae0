// The model that a run starts from, as its configuration describes it.
#pragma once
#include <string>

#include "wmtp/config/config.h"
#include "wmtp/models/model_source.h"

namespace wmtp::models {

struct BaseSource {
  ModelSource source;               // adapters merged; of a critic the trunk alone
  std::string name;                 // as the configuration names it
  bool has_random_weights = false;  // some of its weights are in no file
};

// models.policy or, of a critic that names one, models.value_model. Reads headers only. Error
// config for shapes that contradict each other, weights that are nowhere, a critic without a trunk.
BaseSource open_base(const config::Config& config, const weights::Environment& environment);

}  // namespace wmtp::models
