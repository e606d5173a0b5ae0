// Models by name: wherever the configuration names a model to build, one of these names may stand.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/model/model_config.h"

namespace wmtp::model {

std::vector<std::string> preset_names();
std::optional<ModelConfig> find_preset(std::string_view name);
// Error config with the nearest name where there is no such preset.
ModelConfig preset(std::string_view name);

}  // namespace wmtp::model
