// What models.policy.params may hold.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "wmtp/core/json.h"

namespace wmtp::config {

struct ShapeField {
  std::string_view name;
  bool whole = true;           // a whole number; else any
  std::string_view also = {};  // another name it goes by
};

inline constexpr std::array<ShapeField, 10> kShapeFields{{{"dim"},
                                                          {"n_layers"},
                                                          {"n_heads"},
                                                          {"n_kv_heads"},
                                                          {"head_dim"},
                                                          {"ffn_dim", true, "intermediate_size"},
                                                          {"vocab_size"},
                                                          {"max_positions"},
                                                          {"rope_theta", false},
                                                          {"norm_eps", false}}};

const ShapeField* find_shape_field(std::string_view name);
// What is wrong with one entry of the map, with the names that are known; empty: nothing.
std::string shape_field_problem(std::string_view name, const Json& value);

}  // namespace wmtp::config
