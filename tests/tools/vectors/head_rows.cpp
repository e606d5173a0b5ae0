#include "tools/vectors/head_rows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>

#include "wmtp/kernels/cross_entropy.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::vectors {

std::vector<HeadRows> head_rows(const Tensor& labels_BT, const Tensor& mask_BT,
                                std::int64_t num_heads) {
  const std::int64_t length = labels_BT.size(1);
  const double *labels = labels_BT.data_ptr<double>(), *mask = mask_BT.data_ptr<double>();
  std::vector<HeadRows> heads;
  for (std::int64_t k = 1; k <= num_heads; ++k) {
    std::vector<std::int32_t> rows, targets;
    for (std::int64_t b = 0; b < labels_BT.size(0); ++b)
      for (std::int64_t i = 0; i + k < length; ++i) {
        const std::int64_t target = b * length + i + k;
        if (mask[target] == 0) continue;
        rows.push_back(static_cast<std::int32_t>(target - k));
        targets.push_back(static_cast<std::int32_t>(labels[target]));
      }
    heads.push_back({at::tensor(rows, at::kInt), at::tensor(targets, at::kInt)});
  }
  return heads;
}

Tensor nll_of(const Tensor& logits_NV, const HeadRows& head) {
  const Tensor logits_MV = at::index_select(logits_NV, 0, head.rows_M);
  const Tensor nll_M = at::empty({head.rows_M.size(0)}, logits_NV.options());
  kernels::cross_entropy({logits_MV, head.targets_M, nll_M, {}, {}});
  return nll_M;
}

}  // namespace wmtp::vectors
