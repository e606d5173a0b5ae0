// How far a run may be from another of the same samples that adds up its gradients in another order
// (other ranks, micro-batches, strategies). u = 2^-24 is half the spacing of fp32 at 1.
//
// Gradients. One is a sum over the T tokens of a step. Each addition rounds by up to u of the sum
// so far, to either side, so that two orders of it are rho = u sqrt(T) of its size apart.
//
// Weights in fp32. AdamW moves a weight by lr r with r = m / sqrt(v), near +-1. A relative change
// of rho changes r by as much, and by 2 where the gradient is itself smaller than its error, which
// a share rho of all are: in the norm, 2 sqrt(rho) of the step, whose square is that share times 4.
//
// Weights in bf16, rounded stochastically. Before it is rounded a weight differs by lr rho. Both
// runs round with the same random number, so the weight rounds the other way only where that number
// falls in between: with the probability q_i = lr rho / s_i, s_i being the spacing of bf16 at the
// weight. It then differs by s_i, which adds q_i s_i^2 = lr rho s_i to the variance of the
// difference d_i. (Moments are rounded likewise, which leaves the mean change of r as it was; so do
// 8-bit ones, where a change by a share rho moves a code to its neighbour, a share d away, in rho /
// d of all. Beside fp32 masters a moment in bf16 moves by 2^-8 in 2^8 rho of all: 2^-4 sqrt(rho) of
// the step in the norm, well within the 2 sqrt(rho) above.)
// These differences change the next step's gradients: each unit hands its relative change |d_u| /
// |w_u| on to all, so that rho of the next step is
//   rho_t+1 = rho + sum_u |d_u| / |w_u|,   |d_u|^2 = lr (rho_1 + .. + rho_t) sum_i s_i
//
// Loss. It is a sum over the tokens too: rho of its size. With weights in bf16 there is sum_i g_i
// d_i more, of the variance lr (rho_1 + .. + rho_t) sum_i g_i^2 s_i. Allowed are kSigmas standard
// deviations, and one rounding of the weight that matters most, max_i |g_i| s_i, for a single one
// is possible where hardly any is expected.
#pragma once
#include <vector>

#include "wmtp/optim/recipe.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::test {

inline constexpr double kSigmas = 6;

// A run of one process, as it went.
struct LawTrace {
  struct Step {
    double loss = 0, num_tokens = 0;
    std::vector<Tensor> weights, grads;  // by unit: before the step, and of it
  };
  std::vector<Step> steps;
  std::vector<Tensor> end;  // weights after the last step, by unit
};

struct LawBounds {
  std::vector<double> losses;                // by step
  std::vector<double> first_grads, weights;  // by unit, norms: of the first step, at the end
};

LawBounds law_bounds(const LawTrace& trace, optim::Recipe recipe, double learning_rate);

}  // namespace wmtp::test
