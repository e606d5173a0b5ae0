// Recurrences over the response of each document, from T* down to t0, through gaps in the mask. No
// document reads another's values; v before a document's first token is v_init.
//   td0            out_t = gamma v_t - v_{t-1} for t < T*;  out_{T*} = R - v_{T*}
//   gae_value      out_t = A_t = d_t + gamma lambda A_{t+1},  d_t = gamma v_t - v_{t-1}
//   gae_reward     the same with d_{T*} = R - v_{T*-1}
//   monte_carlo    out_t = R - v_t
//   lambda_return  out_t = G_t = gamma ((1 - lambda) v_{t+1} + lambda G_{t+1}),  G_{T*} = R
// out is 0 outside the mask. Values that no formula reads may be anything, NaN included.
#pragma once
#include "wmtp/kernels/responses.h"
#include "wmtp/kernels/scan_kind.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

struct ValueScan {
  ScanKind kind = ScanKind::td0;
  double gamma = 1, lambda = 1, v_init = 0.5;
  Tensor values_N;      // fp32 (fp64 on the CPU)
  Responses responses;  // the reward may be undefined for gae_value
  Tensor out_N;         // out, dtype of values
  Tensor bad_D;         // out, int32: values read that are not finite; undefined: not counted.
                        // lambda_return counts v_{t0} too, which the loss compares with G
  // [1], dtype and device of values: read instead of lambda by work that is recorded, where a
  // number of the host would stay what it was. Undefined: lambda.
  Tensor lambda_1 = {};
};
void value_scan(const ValueScan& args);

}  // namespace wmtp::kernels
