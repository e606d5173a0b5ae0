// What a run trains of a model: how many parameters, which share, which ones.
#pragma once
#include <string>
#include <vector>

#include "wmtp/core/json.h"
#include "wmtp/layout/unit_spec.h"

namespace wmtp::models {

struct TrainableParameters {
  std::int64_t trained = 0, total = 0;    // adapters count in both
  std::vector<layout::ParamSpec> params;  // the trained ones, in the order of the layout
  double share() const {
    return total > 0 ? static_cast<double>(trained) / static_cast<double>(total) : 0;
  }

  // "trainable: 8,388,608 of 6,746,804,224 parameters (0.1243 %)".
  std::string summary() const;
  // One line per parameter of one block and of what is no block's; the same names in other blocks
  // are counted: "model.layers.*.self_attn.q_proj.lora_A.weight [8, 4096] x 32".
  std::vector<std::string> lines() const;
  OrderedJson to_json() const;  // the numbers, and those lines
};

TrainableParameters trainable_parameters(const std::vector<layout::UnitSpec>& units);

}  // namespace wmtp::models
