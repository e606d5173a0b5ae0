// Rho-1: which targets a head learns from. p = the policy's loss at a target, q = the reference
// model's loss of the same token:
//   score: signed p - q | absolute |p - q| | difficult q
//   c(n) = 1 + floor((n-1) kappa), 0 for n = 0: the c(n) largest scores of a scope get weight 1,
//   the others 0; of equal scores the smaller index (rank, row, position) first
// Heads never share a threshold: one call per head. M valid targets of a head, R ranks, C places.
#pragma once
#include <cstdint>

#include "wmtp/tensor/tensor.h"

namespace wmtp::weighting {

enum class Rho1Mode { signed_excess, absolute, difficult };

// kappa = k_percent in millionths; Error config outside 0 < kappa <= 1.
std::int64_t share_in_millionths(double k_percent);
// c(n), in integers: floating ceil((n-1)(1-kappa)) goes wrong, e.g. n = 11, kappa = .7.
std::int64_t selected_count(std::int64_t n, std::int64_t share_millionths);

// Dtype of nll_M. Where a loss is not finite the score is not either; bad_losses counts it.
Tensor scores(Rho1Mode mode, const Tensor& nll_M, const Tensor& reference_nll_M);

struct Selection {
  Tensor weights_M;  // 1 or 0, dtype of the scores
  Tensor summary_3;  // fp64: n, c(n) and the threshold theta (kernels/top_k.h; NaN for n = 0) of
                     // the whole scope
};
// Scope micro_batch. valid_M: 0 at places that are no scores, and get 0; undefined: all are.
Selection select(const Tensor& scores_M, std::int64_t share_millionths, const Tensor& valid_M = {});

// Ascending int32 indices of the `count` places of weight 1, without asking the device how many
// there are. is_bound: there may be fewer; the first places of weight 0 make them `count`.
Tensor selected_places(const Tensor& weights_M, std::int64_t count, bool is_bound);

// Scope ranks: what all ranks gathered. scores_RC: row r holds the scores of rank r from the left,
// the rest is never read; counts_R: int32 on the device, how many there are. COLLECTIVE is the
// gathering before it, not this call; every rank computes the same. weights of `rank`: its first
// `num_own` places. Any C that holds every rank's scores will do (equal on all ranks).
struct GatheredScores {
  Tensor scores_RC;
  Tensor counts_R;
  std::int64_t rank = 0, num_own = 0;
};
Selection select_over_ranks(const GatheredScores& gathered, std::int64_t share_millionths);

// 0-d int64: how many entries are not finite (policy or reference losses that a score reads).
Tensor bad_losses(const Tensor& nll_M);

}  // namespace wmtp::weighting
