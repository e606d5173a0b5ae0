// Named views into a unit's flat buffers: the one place that knows in which order parameters lie.
#pragma once
#include "wmtp/model/block.h"
#include "wmtp/model/model_config.h"
#include "wmtp/model/weight_access.h"

namespace wmtp::model {

BlockShape block_shape(const ModelConfig& config);

// q, k, v, o, gate, up, down, input norm, post norm, then q and k norm where the model has them:
// q|k|v and gate|up are each one contiguous matrix. `grad` (undefined: no backward) has the ranges
// of buffers.trained; where it is fresh, the matrices' first products write, and the vectors, which
// lie behind them, are zeroed here.
BlockParams block_params(const ModelConfig& config, const UnitBuffers& buffers,
                         const UnitGrad& grad);

struct RootParams {
  Projection unembedding;              // [V, D]
  Tensor embedding_VD, dembedding_VD;  // tied: the same storage as the unembedding
  NormWeight norm;
};
// A fresh `grad` is zeroed: every head adds to the unembedding, and tokens choose the embedding's
// rows.
RootParams root_params(const ModelConfig& config, const UnitBuffers& buffers, const UnitGrad& grad);

}  // namespace wmtp::model
