// The configuration that a checkpoint carries.
#pragma once
#include <string>

#include "wmtp/config/load.h"

namespace wmtp::models {

// `saved_yaml`: the text of its config.yaml. Paths are not looked at.
config::ResolvedConfig load_saved_config(const std::string& saved_yaml,
                                         const config::Environment& environment);

}  // namespace wmtp::models
