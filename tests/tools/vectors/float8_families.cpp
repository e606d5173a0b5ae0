// Float8: numbers one by one, and a linear layer with its operands as they are quantised. In fp32,
// unlike the other families: the questions hold fp32 numbers.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "tools/vectors/families.h"
#include "tools/vectors/json_tensors.h"
#include "wmtp/kernels/float8.h"

namespace wmtp::vectors {
namespace {

using kernels::Float8Forms;
using kernels::Float8Role;

Json float8_codes(const Json& in) {
  const auto format =
      static_cast<kernels::Float8Format>(choice(text(in, "format", "e4m3"), {"e4m3", "e5m2"}));
  Json codes = Json::array();
  for (const double x : numbers(in.at("x")))
    codes.push_back(kernels::float8_of(static_cast<float>(x), format));
  return {{"codes", codes}};
}

Json form_json(const kernels::Float8Matrix& form) {
  return {{"bytes", to_json(form.values_RK.view(at::kByte).to(kFloat64))},
          {"inverse", to_json(form.inverse.to(kFloat64))}};
}

Json forms_json(const Float8Forms& forms) {
  return {{"rows", form_json(forms.rows)}, {"columns", form_json(forms.columns)}};
}

Json float8_linear(const Json& in) {
  const auto recipe = static_cast<kernels::Float8Recipe>(
      choice(text(in, "recipe", "tensorwise"), {"off", "tensorwise", "rowwise"}));
  auto operand = [&](const char* name, Float8Role role, Tensor& values) {
    values = tensor(in.at(name)).to(kFloat32);
    return kernels::quantise(values, recipe, role, true, true);
  };
  Tensor x_NI, weight_OI, dy_NO;
  const Float8Forms x = operand("x", Float8Role::input, x_NI),
                    weight = operand("W", Float8Role::weight, weight_OI),
                    dy = operand("dy", Float8Role::output_grad, dy_NO);
  const Tensor y_NO = at::empty(dy_NO.sizes(), dy_NO.options()),
               dx_NI = at::empty(x_NI.sizes(), x_NI.options()),
               dweight_OI = at::zeros(weight_OI.sizes(), weight_OI.options());
  kernels::float8_linear(x.rows, weight.rows, y_NO);
  kernels::float8_linear_backward_input(dy.rows, weight.columns, dx_NI);
  kernels::float8_linear_backward_weight(dy.columns, x.columns, dweight_OI);
  return {{"x", forms_json(x)},
          {"W", forms_json(weight)},
          {"dy", forms_json(dy)},
          {"y", to_json(y_NO.to(kFloat64))},
          {"dx", to_json(dx_NI.to(kFloat64))},
          {"dW", to_json(dweight_OI.to(kFloat64))}};
}

}  // namespace

Families float8_families() {
  return {{"float8_codes", float8_codes}, {"float8_linear", float8_linear}};
}

}  // namespace wmtp::vectors
