// Weights that are no numbers, found before a run computes with them.
#pragma once
#include <string>
#include <vector>

#include "wmtp/layout/unit_spec.h"
#include "wmtp/parallel/unit_state.h"

namespace wmtp::models {

enum class Reading { whole, samples };  // samples: as weight_samples.h has them

// Error numeric that names model, tensor and element where a weight is NaN or infinite. BLOCKS:
// reads the parameter.
void require_finite(const std::string& model, const layout::ParamSpec& param,
                    const parallel::ReadParam& fill, Reading reading);

}  // namespace wmtp::models
