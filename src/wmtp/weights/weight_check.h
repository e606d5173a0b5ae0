// Strict loading: a source must hold exactly the tensors a model has.
#pragma once
#include <span>
#include <vector>

#include "wmtp/layout/unit_spec.h"
#include "wmtp/weights/weight_source.h"

namespace wmtp::weights {

struct WeightExpectations {
  std::string origin;                   // the files the weights come from, for messages
  std::vector<layout::UnitSpec> units;  // all tensors and shapes
  // The unembedding is the embedding: a stored lm_head.weight is fine only if its bytes are equal.
  bool tied = false;
  // Stored rotary frequencies are compared with these (a difference above 1e-3 is a warning), then
  // ignored. Empty: no comparison.
  std::vector<float> inv_freq;
};

// One Error config that lists every missing, unexpected and misshapen tensor; otherwise nothing.
void check_weights(const WeightSource& source, const WeightExpectations& expected);

}  // namespace wmtp::weights
