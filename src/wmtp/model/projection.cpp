#include "wmtp/model/projection.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "wmtp/kernels/gemm.h"
#include "wmtp/model/float8_projection.h"

namespace wmtp::model {
namespace {

// The adapter's input; redrawn in the backward rather than kept.
Tensor dropped(const Adapter& adapter, const Tensor& x_NI) {
  if (!adapter.mask) return x_NI;
  Tensor out_NI = at::empty_like(x_NI);
  kernels::dropout(x_NI, *adapter.mask, out_NI);
  return out_NI;
}

Tensor outputs_of(const Adapter& adapter, const Tensor& y_NO) {
  return y_NO.narrow(1, adapter.first_output, adapter.b_OR.size(0));
}

Tensor low_rank(const Adapter& adapter, const Tensor& input_NI) {
  Tensor u_NR = at::empty({input_NI.size(0), adapter.a_RI.size(0)}, input_NI.options());
  kernels::linear(input_NI, adapter.a_RI, u_NR);
  return u_NR;
}

void add_backward(const Adapter& adapter, const Tensor& x_NI, const Tensor& dy_NO,
                  const Tensor& dx_NI) {
  const Tensor dy_part = outputs_of(adapter, dy_NO);
  const Tensor input_NI = dropped(adapter, x_NI);
  Tensor du_NR = at::empty({dy_NO.size(0), adapter.a_RI.size(0)}, dy_NO.options());
  kernels::linear_backward_input(dy_part, adapter.b_OR, du_NR);
  if (adapter.db_OR.defined()) {
    kernels::linear_backward_weight(dy_part, low_rank(adapter, input_NI), adapter.db_OR,
                                    adapter.scale);
    kernels::linear_backward_weight(du_NR, input_NI, adapter.da_RI, adapter.scale);
  }
  if (!adapter.mask) {
    kernels::linear_backward_input_add(du_NR, adapter.a_RI, dx_NI, adapter.scale);
    return;
  }
  Tensor dinput_NI = at::empty_like(dx_NI);
  kernels::linear_backward_input(du_NR, adapter.a_RI, dinput_NI);
  kernels::dropout(dinput_NI, *adapter.mask, dinput_NI);
  dx_NI.add_(dinput_NI, adapter.scale);
}

}  // namespace

Tensor forward(const Projection& projection, const Tensor& x_NI, kernels::Float8Matrix* kept) {
  Tensor y_NO = at::empty({x_NI.size(0), projection.weight_OI.size(0)}, x_NI.options());
  if (projection.float8 == kernels::Float8Recipe::off)
    kernels::linear(x_NI, projection.weight_OI, y_NO);
  else
    float8_forward(projection, x_NI, y_NO, kept);
  for (const Adapter& adapter : projection.adapters)
    kernels::linear_add(low_rank(adapter, dropped(adapter, x_NI)), adapter.b_OR,
                        outputs_of(adapter, y_NO), adapter.scale);
  return y_NO;
}

Tensor backward(const Projection& projection, const Tensor& x_NI, const Tensor& dy_NO,
                const kernels::Float8Matrix& kept) {
  const bool in_float8 = projection.float8 != kernels::Float8Recipe::off;
  if (projection.dweight_OI.defined() && !in_float8)
    kernels::linear_backward_weight(dy_NO, x_NI, projection.dweight_OI);
  Tensor dx_NI = at::empty({dy_NO.size(0), projection.weight_OI.size(1)}, dy_NO.options());
  if (in_float8)
    float8_backward(projection, {x_NI, kept}, dy_NO, dx_NI);
  else
    kernels::linear_backward_input(dy_NO, projection.weight_OI, dx_NI);
  for (const Adapter& adapter : projection.adapters) add_backward(adapter, x_NI, dy_NO, dx_NI);
  return dx_NI;
}

}  // namespace wmtp::model
