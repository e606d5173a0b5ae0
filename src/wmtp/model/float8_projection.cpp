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

struct Orders {
  bool rows, columns;
};

Float8Forms quantised(const Tensor& x_RC, const Projection& projection, Float8Role role,
                      const Tensor& amax, Orders orders) {
  return kernels::quantise({.x_RC = x_RC,
                            .recipe = projection.float8,
                            .role = role,
                            .amax = amax.defined() ? kernels::Float8Amax{amax, amax}
                                                   : kernels::float8_amax(x_RC, projection.float8),
                            .rows = orders.rows,
                            .columns = orders.columns});
}

Float8Matrix weight_rows(const Projection& projection) {
  if (projection.inverse.defined()) return {projection.weight_OI, projection.inverse};
  return quantised(projection.weight_OI, projection, Float8Role::weight, {}, {true, false}).rows;
}

Float8Matrix weight_columns(const Projection& projection) {
  if (projection.inverse.defined())
    return kernels::columns_of({projection.weight_OI, projection.inverse});
  return quantised(projection.weight_OI, projection, Float8Role::weight, {}, {false, true}).columns;
}

}  // namespace

void float8_forward(const Projection& projection, const Float8Input& input, const Tensor& y_NO,
                    Float8Matrix* kept) {
  const bool keeps = kept && !projection.frozen;
  const Float8Forms x =
      quantised(input.x_NI, projection, Float8Role::input, input.amax.x, {true, keeps});
  kernels::float8_linear(x.rows, weight_rows(projection), y_NO);
  if (keeps) *kept = x.columns;
}

void float8_backward(const Projection& projection, const Float8Input& input, const Tensor& dy_NO,
                     const Tensor& dx_NI) {
  const bool learns = projection.dweight_OI.defined();
  const Float8Forms dy =
      quantised(dy_NO, projection, Float8Role::output_grad, input.amax.dy, {true, learns});
  if (learns) {
    const Float8Matrix x =
        input.kept.defined()
            ? input.kept
            : quantised(input.x_NI, projection, Float8Role::input, input.amax.x, {false, true})
                  .columns;
    kernels::float8_linear_backward_weight(dy.columns, x, projection.dweight_OI,
                                           /*beta=*/projection.adds ? 1 : 0);
  }
  kernels::float8_linear_backward_input(dy.rows, weight_columns(projection), dx_NI);
}

}  // namespace wmtp::model
