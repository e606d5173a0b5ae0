// A configuration for those who have none yet: a model by its name, everything else as usual.
#pragma once
#include <optional>
#include <string>

#include "wmtp/config/load.h"

namespace wmtp::run {

struct PresetRun {
  std::string model;  // a preset, or what models.policy.path takes
  std::int64_t batch_size = 1, max_length = 2048;
  std::optional<std::int64_t> lora_rank;  // absent: everything is trained
};

// Stage baseline, the built-in defaults; no file of data is named that anybody looks for.
config::LoadRequest preset_request(const PresetRun& run);

}  // namespace wmtp::run
