// Training checkpoints of the Python project (weights/torch_checkpoint.h) as models: critics,
// adapters of policies and references, whole policies.
#pragma once
#include <memory>

#include "wmtp/models/open_model.h"
#include "wmtp/weights/torch_checkpoint.h"
#include "wmtp/weights/weight_source.h"

namespace wmtp::models {

// `model` with the file's weights in place of its own; adapters lie upon them, unmerged. A whole
// model may lack the unembedding alone (a critic has none); that one stays the base's. `model` may
// be without weights where the file has them all. Error config that lists what is missing,
// unexpected, misshapen or no float.
OpenedModel with_python_checkpoint(OpenedModel model,
                                   std::unique_ptr<weights::WeightSource> weights,
                                   const weights::TorchCheckpoint& said);

}  // namespace wmtp::models
