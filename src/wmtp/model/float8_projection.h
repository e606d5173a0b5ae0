// The products of a projection with its weight in float8 (kernels/float8.h): x, W and dy are each
// one operand with the scales of its own numbers, q|k|v and gate|up too, which are one matrix each.
//
// Scales are taken anew for every product, so nothing of them is state: a checkpoint holds nothing,
// and a resumed run goes on with the same bits. Tensorwise a trained W comes in float8 from whoever
// keeps it, with the scale of the master over all ranks (parallel/float8_weights.h), hence the same
// bytes at every world size. Elsewhere it is quantised here, as it was gathered: rowwise, for no
// rank holds whole columns, and frozen ones, which are the same numbers everywhere.
//
// The scales of x and dy are of one micro-batch. So the same samples in other micro-batches are
// quantised differently, except in the rowwise forward and dx, where a token has scales of its own.
#pragma once
#include <string_view>

#include "wmtp/model/model_config.h"
#include "wmtp/model/projection.h"

namespace wmtp::model {

// Error config that begins with `key` and names the sizes of a block's matrices that are no
// multiples of 16.
void check_float8_sizes(const ModelConfig& config, std::string_view key);

// For the weight gradient one of x and kept is enough.
struct Float8Input {
  Tensor x_NI;
  kernels::Float8Matrix kept;
  OperandAmax amax;
};
// y = x W^T; `kept` as in forward().
void float8_forward(const Projection& projection, const Float8Input& input, const Tensor& y_NO,
                    kernels::Float8Matrix* kept);
// dW (+)= dy^T x where W is trained, and dx = dy W.
void float8_backward(const Projection& projection, const Float8Input& input, const Tensor& dy_NO,
                     const Tensor& dx_NI);

}  // namespace wmtp::model
