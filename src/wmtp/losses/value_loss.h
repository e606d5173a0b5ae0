// Losses of the value head on response tokens, e = v - target:
//   mse            target R; e^2
//   lambda_return  target G: G_{T*} = R, G_t = gamma ((1-lambda) v_{t+1} + lambda G_{t+1}), v
//                  without gradient; huber: e^2/(2 delta) if |e| < delta else |e| - delta/2, or mse
//   pairwise       vbar = mean of v over a response; softplus(-(vbar+ - vbar-)); pairs with an
//                  empty side dropped
// Reduction sequence: mean over a response, then over the non-empty sequences (pairs) of the step;
// token: mean over all response tokens of the step. Counts are those of the whole step, all ranks:
// losses and gradients of parts add up. N packed tokens, D documents.
#pragma once
#include "wmtp/kernels/responses.h"
#include "wmtp/losses/pairs.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::losses {

enum class ValueLossType { mse, lambda_return, pairwise_ranking };
enum class ValueLossFn { huber, mse };
enum class ValueReduction { sequence, token };

struct ValueLossOptions {
  ValueLossType type = ValueLossType::mse;
  ValueLossFn loss_fn = ValueLossFn::huber;  // of lambda_return; mse is mse
  double huber_delta = 0.5, gamma = 1, lambda = 1;
  ValueReduction reduction = ValueReduction::sequence;
  Tensor lambda_1 = {};  // [1] on the device: read instead of lambda; undefined: lambda
};
// Error config outside huber_delta > 0, 0 < gamma <= 1, 0 <= lambda <= 1.
void check(const ValueLossOptions& options);

// Of the whole step: non-empty sequences, response tokens, pairs with two non-empty sides. Only the
// one the options need is read; 0 there: loss and gradient 0.
struct ValueCounts {
  double sequences = 0, tokens = 0, pairs = 0;
  // The three, fp64 on the device: read instead, by work that is recorded. Undefined: the host's.
  Tensor counts_3 = {};
};

struct ValueLoss {
  Tensor loss;       // 0-d fp64 on the device, divided by the counts: parts add up
  Tensor dvalues_N;  // dtype of the values, 0 outside the mask
  Tensor bad;        // 0-d int64: values read that are not finite
};

// target_N as the loss reads it, 0 outside the mask. REQUIRES type mse or lambda_return.
Tensor value_targets(const ValueLossOptions& options, const Tensor& values_N,
                     const kernels::Responses& docs);
// mse and lambda_return.
ValueLoss value_loss(const ValueLossOptions& options, const Tensor& values_N,
                     const kernels::Responses& docs, const ValueCounts& counts);

// pair_role_D: uint8, PairRole. docs.reward_D is not read.
ValueLoss pairwise_loss(const Tensor& values_N, const kernels::Responses& docs,
                        const Tensor& pair_role_D, const ValueCounts& counts);

// [sum of (v - R)^2, n] fp64 over response tokens: value/mse is their ratio.
Tensor value_mse_sums(const Tensor& values_N, const kernels::Responses& docs);

}  // namespace wmtp::losses
