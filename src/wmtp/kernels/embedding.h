// Rows of the embedding matrix by token id, and the scatter-add back. N tokens, V vocabulary, D
// features.
#pragma once
#include "wmtp/tensor/tensor.h"

namespace wmtp::kernels {

// REQUIRES ids in [0, V): checked on the CPU; on a GPU the loader has checked them.
void embedding(const Tensor& tokens_N, const Tensor& weight_VD, const Tensor& out_ND);
// dweight[tokens[i]] += dout[i], each row summed in token order: bit-equal reruns.
void embedding_backward(const Tensor& tokens_N, const Tensor& dout_ND, const Tensor& dweight_VD);

}  // namespace wmtp::kernels
