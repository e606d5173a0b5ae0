// What the model of a run is called.
#pragma once
#include <string>

#include "wmtp/config/config.h"

namespace wmtp::models {

// The <model> of checkpoint names: models.policy.name; else, where models.policy.path is what a run
// left (its `final`, a checkpoint, a pointer to one, or the run's folder), the name that run used;
// else made of the path. Reads small files only.
std::string model_name(const config::Config& config);

}  // namespace wmtp::models
