// Arithmetic of a model, causal attention counted, recomputation not. S = mean attention span (row
// length, or sum(len^2) / sum(len) of packed documents); b = matrix parameters of a block; u = V d.
//   forward F = 2 (L b + n u) + 2 L S h e;  training 3 F
#pragma once
#include "wmtp/model/model_config.h"

namespace wmtp::run {

// `logits` false: the unembedding is not run (n u = 0).
double forward_flops_per_token(const model::ModelConfig& config, double span, bool logits = true);
// Linear maps 2 (L b + n u) twice, attention 2 L S h e three times, adapters 6 P.
double lora_flops_per_token(const model::ModelConfig& config, double span, double lora_params,
                            bool logits = true);

}  // namespace wmtp::run
