#include "wmtp/config/shape_fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace wmtp::config {

const ShapeField* find_shape_field(std::string_view name) {
  const auto found = std::ranges::find_if(kShapeFields, [name](const ShapeField& field) {
    return field.name == name || (!field.also.empty() && field.also == name);
  });
  return found == kShapeFields.end() ? nullptr : &*found;
}

std::string shape_field_problem(std::string_view name, const Json& value) {
  if (name == "n_future_tokens") return "it has a key of its own, models.policy.n_future_tokens";
  const ShapeField* field = find_shape_field(name);
  if (!field) {
    std::string known;
    for (const ShapeField& one : kShapeFields)
      known += fmt::format("{}{}", known.empty() ? "" : ", ", one.name);
    return fmt::format("not a shape field; known are {}", known);
  }
  if (field->whole && !value.is_number_integer()) return "expected a whole number";
  if (!field->whole && !value.is_number()) return "expected a number";
  if (!(value.get<double>() > 0)) return "expected a number above 0";
  return "";
}

}  // namespace wmtp::config
