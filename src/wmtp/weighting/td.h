// What a token did to the value: TD errors and advantages of response tokens.
// v_t = value of the prefix up to and including token t, v_{-1} = v_init of its document, R the
// document's reward, m the response mask, t0 and T* its first and last position:
//   td0   x_t = gamma v_t - v_{t-1} for t < T*;   x_{T*} = R - v_{T*}
//   gae   d_t = gamma v_t - v_{t-1};   A_t = d_t + gamma lambda A_{t+1}, A_{T*+1} = 0;   x_t = A_t
//         terminal value: as is | reward: d_{T*} = R - v_{T*-1} | monte_carlo: x_t = R - v_t
// Pure functions on device tensors; the host never waits. N tokens, D documents.
#pragma once
#include "wmtp/kernels/responses.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::weighting {

enum class TdMode { td0, gae };
enum class Terminal { value, reward, monte_carlo };

struct TdOptions {
  TdMode mode = TdMode::td0;
  double gamma = 1, lambda = 0.95, v_init = 0.5;
  Terminal terminal = Terminal::value;  // of gae
};

// Error config outside 0 < gamma <= 1, 0 <= lambda <= 1, v_init finite, and for monte_carlo unless
// gamma = lambda = 1.
void check(const TdOptions& options);

// x_N in the dtype of values_N, 0 outside the mask. Values that the formulas do not read may be
// NaN. REQUIRES docs.reward_D unless mode is gae with terminal value.
Tensor td_error(const TdOptions& options, const Tensor& values_N, const kernels::Responses& docs);

// 0-d int64 on the device: how many of the values that td_error reads are not finite. A step in
// which this is not 0 is a bad step (clipping may hide a NaN, so the inputs are tested).
Tensor bad_values(const TdOptions& options, const Tensor& values_N, const kernels::Responses& docs);

}  // namespace wmtp::weighting
