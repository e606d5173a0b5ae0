// Which (row, position) predict what, from rows [B, T] of labels and mask.
#pragma once
#include <cstdint>
#include <vector>

#include "wmtp/tensor/tensor.h"

namespace wmtp::vectors {

// Head k (from 1): source places b * T + i in order, with the label y[b, i + k].
struct HeadRows {
  Tensor rows_M, targets_M;  // int32
};
std::vector<HeadRows> head_rows(const Tensor& labels_BT, const Tensor& mask_BT,
                                std::int64_t num_heads);

// Losses of the rows of one head; logits [B T, V] with the same places.
Tensor nll_of(const Tensor& logits_NV, const HeadRows& head);

}  // namespace wmtp::vectors
