#include "wmtp/training/upload.h"

#include <ATen/ops/empty.h>

#include "wmtp/core/error.h"

namespace wmtp::training {
namespace {

Tensor to_device(std::span<const std::int32_t> values, c10::Device device) {
  const auto options = at::TensorOptions().dtype(at::kInt).pinned_memory(device.is_cuda());
  const Tensor host = at::empty({static_cast<std::int64_t>(values.size())}, options);
  std::copy(values.begin(), values.end(), host.data_ptr<std::int32_t>());
  return device.is_cpu() ? host : host.to(device, /*non_blocking=*/true);
}

template <class Visit>
void for_each_target(const TokenView& view, std::int32_t head, Visit visit) {
  for (std::size_t d = 0; d + 1 < view.doc_start.size(); ++d)
    for (std::int32_t i = view.doc_start[d]; i + head < view.doc_start[d + 1]; ++i)
      if (view.target_mask[static_cast<std::size_t>(i + head)])
        visit(i, view.tokens[static_cast<std::size_t>(i + head)]);
}

}  // namespace

std::vector<std::int64_t> count_targets(const TokenView& view, int num_heads) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(num_heads));
  for (int head = 1; head <= num_heads; ++head)
    for_each_target(view, head, [&](std::int32_t, std::int32_t) {
      ++counts[static_cast<std::size_t>(head - 1)];
    });
  return counts;
}

model::Batch upload(const TokenView& view, int num_heads, const Tensor& inv_freq_F) {
  WMTP_CHECK(
      view.positions.size() == view.tokens.size() && view.target_mask.size() == view.tokens.size(),
      "a micro-batch has arrays of different lengths");
  const c10::Device device = inv_freq_F.device();
  model::Batch batch;
  batch.tokens_N = to_device(view.tokens, device);
  batch.documents = kernels::make_documents({view.doc_start.begin(), view.doc_start.end()}, device);
  batch.rope = kernels::rope_table(to_device(view.positions, device), inv_freq_F);
  for (int head = 1; head <= num_heads; ++head) {
    std::vector<std::int32_t> rows, targets;
    for_each_target(view, head, [&](std::int32_t row, std::int32_t target) {
      rows.push_back(row);
      targets.push_back(target);
    });
    batch.heads.push_back({to_device(rows, device), to_device(targets, device)});
  }
  return batch;
}

}  // namespace wmtp::training
