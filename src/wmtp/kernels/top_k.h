// The largest scores of a vector, on the device: a radix select over the bits of the scores.
// With n valid scores and the share kappa in millionths:
//   c = 1 + floor((n-1) kappa / 10^6), 0 for n = 0
//   selected: the c largest; of equal scores those with the smaller index
//   h = (n-1)(1 - kappa), s ascending: theta = s_floor(h) + (h - floor(h)) (s_ceil(h) - s_floor(h))
// NaN counts as the largest score, so that the number selected is c whatever comes in.
#pragma once
#include <cstdint>

#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

struct TopK {
  Tensor scores_M;                            // fp32 (fp64 on the CPU)
  Tensor valid_M;                             // uint8; undefined: all are valid
  std::int64_t share_millionths = 1'000'000;  // kappa, in (0, 10^6]
  Tensor selected_M;                          // out, dtype of scores: 1 or 0
  Tensor summary_3;                           // out, fp64: n, c, theta (NaN for n = 0)
};
void top_k(const TopK& args);

}  // namespace wmtp::kernels
