// What a document's response says about the values: one row of fp64 numbers per document, in a
// fixed order of summation. n response tokens, d over adjacent response tokens (t and t + 1 both
// in the mask).
#pragma once
#include "wmtp/kernels/responses.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

// Columns; NaN where a document has no such number.
enum ResponseStat : int {
  kStatCount = 0,      // n
  kStatMean = 1,       // vbar = mean of v; n >= 1
  kStatVariance = 2,   // population variance of v; n >= 1
  kStatMeanAbsTd = 3,  // mean |d|, d = v_{t+1} - v_t; at least one d
  kStatSpikiness = 4,  // max |d| / (mean |d| + 1e-8); at least one d
  kStatCorr = 5,       // Pearson(v, t); n >= 3 and v not constant
  kNumResponseStats = 6,
};

// stats_DS: out, fp64 [D, kNumResponseStats]. values_N: fp32 (fp64 on the CPU).
void response_stats(const Tensor& values_N, const Responses& responses, const Tensor& stats_DS);

}  // namespace wmtp::kernels
