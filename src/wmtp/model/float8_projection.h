// The products of a projection with its weight in float8 (kernels/float8.h): x, W and dy are each
// one operand with the scales of its own numbers, q|k|v and gate|up too, which are one matrix each.
//
// Scales are taken anew for every product, so nothing of them is state: a checkpoint holds nothing,
// and a resumed run goes on with the same bits. W's scale is of the unsharded matrix as it was
// gathered. On the CPU that is the fp32 master, hence the same at every world size. On a GPU the
// gathered copy would be bf16; there FULL_SHARD is to quantise each rank's part of the fp32 master
// and gather the bytes, tensorwise, with the amax over all ranks, those of all units in one
// reduction (MAX) after the optimizer's step; rowwise gathers bf16 and quantises afterwards, for no
// rank holds whole columns. That is not built.
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

// y = x W^T; `kept` as in forward().
void float8_forward(const Projection& projection, const Tensor& x_NI, const Tensor& y_NO,
                    kernels::Float8Matrix* kept);

// One of the two is enough for the weight gradient.
struct Float8Input {
  Tensor x_NI;
  kernels::Float8Matrix kept;
};
// dW (+)= dy^T x where W is trained, and dx = dy W.
void float8_backward(const Projection& projection, const Float8Input& input, const Tensor& dy_NO,
                     const Tensor& dx_NI);

}  // namespace wmtp::model
