// Logits of a fixed row of tokens: what tells that two copies of a model compute the same.
#pragma once
#include <vector>

#include "wmtp/model/local_weights.h"
#include "wmtp/model/transformer.h"

namespace wmtp::exports {

// One [T, V] per prediction head, fp32, on the host.
using ProbeLogits = std::vector<Tensor>;

// Tokens (7 i + 3) mod V, i < 16. REQUIRES a transformer without a gradient sink; in a run, after
// Runtime::begin_evaluation. COLLECTIVE where the weights are sharded. `inv_freq_F` as in upload.h.
// BLOCKS.
ProbeLogits probe_logits(model::Transformer& transformer, const Tensor& inv_freq_F);

// The same of weights that are read unit by unit, computed on the host in fp32: memory is the root
// unit and one block. `lora`: the units are those of lora_units.
ProbeLogits probe_logits(const model::ModelConfig& config,
                         const std::optional<model::LoraConfig>& lora,
                         const model::LocalWeights::ReadParam& fill);

// The largest difference over the largest logit, of the heads that both have; NaN if not finite.
double probe_difference(const ProbeLogits& a, const ProbeLogits& b);

}  // namespace wmtp::exports
