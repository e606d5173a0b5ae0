// One pass over a chunk of logits, the middle of linear_cross_entropy:
//   nll = logsumexp(z) - z[target];  z <- scale * (softmax(z) - onehot(target))
// M rows, V vocabulary, D features.
#pragma once
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

struct CrossEntropy {
  Tensor logits_MV;  // in/out: the gradient afterwards if there is a scale
  Tensor targets_M;  // int32 in [0, V): checked on the CPU; on a GPU a bad one makes its nll NaN
  Tensor nll_M;      // out, fp32 (fp64)
  Tensor
      scale_M;  // fp32 (fp64); undefined: only nll. Rows of scale 0 get a gradient of 0, NaN or not
  Tensor hidden_MD;  // in/out, undefined without scale: rows of scale 0 become 0, so they add
                     // nothing to dW
};
void cross_entropy(const CrossEntropy& args);

}  // namespace wmtp::kernels
