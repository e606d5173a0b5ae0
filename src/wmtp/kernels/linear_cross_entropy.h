// Unembedding and cross-entropy in one, chunk of rows by chunk of rows: the logits of one chunk are
// all that ever exists, whatever the number of rows.
//   z = h W^T;  nll = logsumexp(z) - z[target];  dL/dz = scale * (softmax(z) - onehot(target))
// N rows of hidden, M of them with a target, V vocabulary, D features.
#pragma once
#include <cstdint>

#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

struct LinearCrossEntropy {
  Tensor hidden_ND, weight_VD;
  Tensor rows_M;     // int32, ascending: which rows have a target; undefined: all (M = N)
  Tensor targets_M;  // int32
  std::int64_t chunk_rows =
      0;  // 0 = chosen so that a chunk of logits stays near 64 MiB (CPU) / 512 MiB (GPU)
};

// nll_M, fp32 (fp64). Rows without a target are not computed.
Tensor nll(const LinearCrossEntropy& args);

struct LinearCrossEntropyGrads {
  Tensor scale_M;  // per row, fp32 (fp64): weight / normaliser; rows of scale 0 add nothing, NaN or
                   // not
  Tensor dhidden_ND;  // out: written whole, rows without a target get 0
  Tensor dweight_VD;  // in/out: +=; undefined: frozen
};
Tensor nll_and_grad(const LinearCrossEntropy& args, const LinearCrossEntropyGrads& grads);

// How many rows one chunk has.
struct LossChunk {
  std::int64_t rows = 0;       // with a target
  std::int64_t row_bytes = 0;  // of a row of logits
  std::int64_t wanted = 0;     // LinearCrossEntropy::chunk_rows
  bool on_gpu = false;
};
std::int64_t loss_chunk_rows(const LossChunk& chunk);

}  // namespace wmtp::kernels
