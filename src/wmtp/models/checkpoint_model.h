// Checkpoints of runs as models: what `wmtp checkpoint export`, scoring, frozen models and warm
// starts read. Weights only; going on with a run is checkpoints/resume.h.
#pragma once
#include <filesystem>
#include <string>

#include "wmtp/models/open_model.h"

namespace wmtp::models {

// The weights as they were trained; every byte that is read is held against the manifest
// (checkpoint::DamageError). Where the frozen base was left out (save_lora_only) it is built again
// as the run did, from what the run's configuration names, or from `base_model`. REQUIRES
// is_checkpoint(folder).
OpenedModel open_checkpoint(const std::filesystem::path& folder,
                            const weights::Environment& environment, const std::string& base_model);

}  // namespace wmtp::models
