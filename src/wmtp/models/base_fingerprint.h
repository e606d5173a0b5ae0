// What a model is by content, wherever it lies: checkpoints say with it which base they were
// trained upon (manifest.json, fingerprints.base).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "wmtp/models/model_source.h"

namespace wmtp::models {

// 64 hex digits: SHA-256 over the constants that define the computation, names and shapes of all
// parameters (adapters included), and eight pieces of 4096 elements spread evenly over each; small
// tensors are read whole. So it costs some 40 MB of a 7B model, finds any other training, and may
// miss a few values that were edited by hand. The files' layout and dtype do not matter. BLOCKS.
// REQUIRES a source that is not merged.
std::string sampled_fingerprint(const ModelSource& source);

// The same of weights that are drawn: `how` says by what means, with its seed.
std::string random_fingerprint(const model::ModelConfig& config, std::string_view how);

// False for what checkpoints of the first versions hold, the path.
bool is_fingerprint(std::string_view text);

}  // namespace wmtp::models
