// AdamW over one flat range, one launch. g' = grad * grad_scale, j = applied_steps + 1:
//   m1 <- b1 m1 + (1-b1) g';  m2 <- b2 m2 + (1-b2) g'^2
//   p <- p (1 - lr wd) - lr (m1 / (1 - b1^j)) / (sqrt(m2 / (1 - b2^j)) + eps)
// The arithmetic is fp32 (fp64) whatever the state is kept in. A bf16 param is rounded
// stochastically, and so are bf16 moments: of the two neighbours each is taken with the probability
// that makes the expectation exact.
//   round(x) = the upper half of bits(x) + r, r uniform in [0, 2^16)
//   r of element e = first_element + i: halves of the words of Philox(seed, stream + j, e / 2);
//   p takes the low half of word 2 (e % 2), m1 its high half, m2 the low half of the next word
// An fp32 master may lie in two planes (codes/planes.h), both replaced by those of the new weight;
// a copy of it in bf16 is its upper plane. Moments in 8 bits (moment_codes.h): p is updated with
// the new ones before they are quantised. The range then begins a block; a last short block has a
// scale of its own. What is known only on the device stays there: nothing here makes the host wait.
#pragma once
#include <cstdint>

#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

struct StochasticRounding {
  std::uint64_t seed = 0, stream = 0;
  std::int64_t first_element = 0;  // place of the range in its whole, so that any split draws alike
};

struct AdamW {
  Tensor param;        // in/out: fp32 (fp64) or bf16 master, or the upper plane of an fp32 one
  Tensor param_lower;  // in/out: its lower plane; undefined: param is the whole master
  Tensor grad;         // fp32, bf16 (fp64)
  Tensor exp_avg, exp_avg_sq;  // in/out: dtype of the master, bf16 beside fp32, or codes (uint8)
  Tensor exp_avg_scales, exp_avg_sq_scales;  // in/out: of the codes' blocks, fp32
  Tensor compute_copy;  // out: param in the compute dtype; undefined: none, as with planes
  double learning_rate = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  Tensor grad_scale;                 // 0-d fp32 (fp64) on the device: clipping and loss scale
  Tensor applied_steps;              // 0-d int64 on the device: updates done so far
  Tensor apply;                      // 0-d int32 on the device: 0 leaves everything as it is
  StochasticRounding rounding = {};  // of bf16 param and moments
};
void adamw(const AdamW& args);

}  // namespace wmtp::kernels
