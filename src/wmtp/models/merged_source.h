// A model with its adapters built into its weights, read range by range: what frozen models and
// full fine-tuning start from.
#pragma once
#include "wmtp/models/model_source.h"

namespace wmtp::models {

// W + s B A in fp32, rounded once to the dtype asked for. The source itself where it has no
// adapters.
ModelSource merged_source(const ModelSource& source);

}  // namespace wmtp::models
