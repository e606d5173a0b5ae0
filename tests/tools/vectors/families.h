// The families of functions that wmtp_vectors answers: from the input object to the output object.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "wmtp/core/json.h"

namespace wmtp::vectors {

using Family = std::function<Json(const Json& in)>;
using Families = std::map<std::string, Family>;

Families weighting_families();     // td0 gae weights ema
Families rho1_families();          // rho1_select rho1_counts
Families loss_families();          // mtp_ce pairwise value_loss lambda_schedule critic_metrics
Families model_families();         // value_head lora_linear
Families float8_families();        // float8_codes float8_linear
Families optimizer_families();     // grad_clip lr_schedule
Families quantisation_families();  // nf4

}  // namespace wmtp::vectors
