#include "wmtp/model/projection.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "wmtp/kernels/gemm.h"
#include "wmtp/model/float8_projection.h"

namespace wmtp::model {
namespace {

// The adapters' input; redrawn in the backward rather than kept.
Tensor dropped(const AdapterGroup& group, const Tensor& x_NI) {
  if (!group.mask) return x_NI;
  Tensor out_NI = at::empty_like(x_NI);
  kernels::dropout(x_NI, *group.mask, out_NI);
  return out_NI;
}

Tensor low_rank(const AdapterGroup& group, const Tensor& input_NI) {
  Tensor u_NS = at::empty({input_NI.size(0), group.a_SI.size(0)}, input_NI.options());
  kernels::linear(input_NI, group.a_SI, u_NS);
  return u_NS;
}

// Each adapter with its outputs of y and its columns of u.
template <class Visit>
void for_each_adapter(const AdapterGroup& group, const Tensor& y_NO, const Tensor& u_NS,
                      Visit visit) {
  std::int64_t first_rank = 0;
  for (const Adapter& adapter : group.adapters) {
    const std::int64_t outputs = adapter.b_OR.size(0), rank = adapter.b_OR.size(1);
    visit(adapter, y_NO.narrow(1, adapter.first_output, outputs), u_NS.narrow(1, first_rank, rank));
    first_rank += rank;
  }
}

void add_forward(const AdapterGroup& group, const Tensor& x_NI, const Tensor& y_NO) {
  for_each_adapter(group, y_NO, low_rank(group, dropped(group, x_NI)),
                   [](const Adapter& adapter, const Tensor& y_part, const Tensor& u_NR) {
                     kernels::linear_add(u_NR, adapter.b_OR, y_part, adapter.scale);
                   });
}

// du holds the scales, which may differ within the group: dA and dx are then plain products.
void add_backward(const AdapterGroup& group, bool adds, const Tensor& x_NI, const Tensor& dy_NO,
                  const Tensor& dx_NI) {
  const Tensor input_NI = dropped(group, x_NI);
  Tensor du_NS = at::empty({dy_NO.size(0), group.a_SI.size(0)}, dy_NO.options());
  for_each_adapter(group, dy_NO, du_NS,
                   [](const Adapter& adapter, const Tensor& dy_part, const Tensor& du_NR) {
                     kernels::linear_backward_input(dy_part, adapter.b_OR, du_NR, adapter.scale);
                   });
  if (group.da_SI.defined()) {
    for_each_adapter(group, dy_NO, low_rank(group, input_NI),
                     [&](const Adapter& adapter, const Tensor& dy_part, const Tensor& u_NR) {
                       kernels::linear_backward_weight(dy_part, u_NR, adapter.db_OR,
                                                       {.adds = adds, .alpha = adapter.scale});
                     });
    kernels::linear_backward_weight(du_NS, input_NI, group.da_SI, {.adds = adds});
  }
  if (!group.mask) {
    kernels::linear_backward_input_add(du_NS, group.a_SI, dx_NI);
    return;
  }
  Tensor dinput_NI = at::empty_like(dx_NI);
  kernels::linear_backward_input(du_NS, group.a_SI, dinput_NI);
  kernels::dropout(dinput_NI, *group.mask, dinput_NI);
  dx_NI.add_(dinput_NI);
}

}  // namespace

Tensor amax_for(const Projection& projection, const Tensor& like) {
  if (projection.float8 != kernels::Float8Recipe::tensorwise) return {};
  return at::zeros({1}, like.options().dtype(at::kFloat));
}

Tensor forward(const Projection& projection, const Tensor& x_NI, kernels::Float8Matrix* kept,
               const OperandAmax& amax) {
  Tensor y_NO = at::empty({x_NI.size(0), projection.weight_OI.size(0)}, x_NI.options());
  if (projection.float8 == kernels::Float8Recipe::off)
    kernels::linear(x_NI, projection.weight_OI, y_NO);
  else
    float8_forward(projection, {x_NI, {}, amax}, y_NO, kept);
  for (const AdapterGroup& group : projection.groups) add_forward(group, x_NI, y_NO);
  return y_NO;
}

bool reads_input(const Projection& projection) {
  return !projection.frozen || !projection.groups.empty();
}

Tensor backward(const Projection& projection, const Tensor& x_NI, const Tensor& dy_NO,
                const kernels::Float8Matrix& kept, const OperandAmax& amax) {
  const bool in_float8 = projection.float8 != kernels::Float8Recipe::off;
  if (projection.dweight_OI.defined() && !in_float8)
    kernels::linear_backward_weight(dy_NO, x_NI, projection.dweight_OI, {.adds = projection.adds});
  Tensor dx_NI = at::empty({dy_NO.size(0), projection.weight_OI.size(1)}, dy_NO.options());
  if (in_float8)
    float8_backward(projection, {x_NI, kept, amax}, dy_NO, dx_NI);
  else
    kernels::linear_backward_input(dy_NO, projection.weight_OI, dx_NI);
  for (const AdapterGroup& group : projection.groups)
    add_backward(group, projection.adds, x_NI, dy_NO, dx_NI);
  return dx_NI;
}

}  // namespace wmtp::model
