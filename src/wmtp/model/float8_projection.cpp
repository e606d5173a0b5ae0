#include "wmtp/model/float8_projection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "wmtp/core/error.h"

namespace wmtp::model {

using kernels::Float8Forms;
using kernels::Float8Matrix;
using kernels::Float8Role;

void check_float8_sizes(const ModelConfig& config, std::string_view key) {
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"dim", config.dim},
      {"n_heads * head_dim", config.num_heads * config.head_dim},
      {"(n_heads + 2 n_kv_heads) * head_dim",
       (config.num_heads + 2 * config.num_kv_heads) * config.head_dim},
      {"ffn_dim", config.ffn_dim}};
  std::vector<std::string> odd;
  for (const auto& [name, size] : sizes)
    if (size % kernels::kFloat8Multiple != 0) odd.push_back(fmt::format("{} {}", name, size));
  if (!odd.empty())
    throw Error(ErrorKind::config, "model",
                fmt::format("{}: products in float8 take multiples of {}, but the model has {}",
                            key, kernels::kFloat8Multiple, fmt::join(odd, ", ")),
                "set off, or take a model of other sizes");
}

namespace {

Float8Matrix weight_rows(const Projection& projection) {
  if (projection.inverse.defined()) return {projection.weight_OI, projection.inverse};
  return kernels::quantise(projection.weight_OI, projection.float8, Float8Role::weight,
                           /*rows=*/true, /*columns=*/false)
      .rows;
}

Float8Matrix weight_columns(const Projection& projection) {
  if (projection.inverse.defined())
    return kernels::columns_of({projection.weight_OI, projection.inverse});
  return kernels::quantise(projection.weight_OI, projection.float8, Float8Role::weight,
                           /*rows=*/false, /*columns=*/true)
      .columns;
}

}  // namespace

void float8_forward(const Projection& projection, const Tensor& x_NI, const Tensor& y_NO,
                    Float8Matrix* kept) {
  const bool keeps = kept && !projection.frozen;
  const Float8Forms x =
      kernels::quantise(x_NI, projection.float8, Float8Role::input, /*rows=*/true, keeps);
  kernels::float8_linear(x.rows, weight_rows(projection), y_NO);
  if (keeps) *kept = x.columns;
}

void float8_backward(const Projection& projection, const Float8Input& input, const Tensor& dy_NO,
                     const Tensor& dx_NI) {
  const bool learns = projection.dweight_OI.defined();
  const Float8Forms dy = kernels::quantise(dy_NO, projection.float8, Float8Role::output_grad,
                                           /*rows=*/true, /*columns=*/learns);
  if (learns) {
    const Float8Matrix x = input.kept.defined() ? input.kept
                                                : kernels::quantise(input.x_NI, projection.float8,
                                                                    Float8Role::input, false, true)
                                                      .columns;
    kernels::float8_linear_backward_weight(dy.columns, x, projection.dweight_OI,
                                           /*beta=*/projection.adds ? 1 : 0);
  }
  kernels::float8_linear_backward_input(dy.rows, weight_columns(projection), dx_NI);
}

}  // namespace wmtp::model
