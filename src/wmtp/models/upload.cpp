#include "wmtp/models/upload.h"

#include "wmtp/core/error.h"
#include "wmtp/tensor/copy_to_device.h"

namespace wmtp::models {
namespace {

template <class Visit>
void for_each_target(const TokenView& view, std::int32_t head, Visit visit) {
  for (std::size_t d = 0; d + 1 < view.doc_start.size(); ++d)
    for (std::int32_t i = view.doc_start[d]; i + head < view.doc_start[d + 1]; ++i)
      if (view.target_mask[static_cast<std::size_t>(i + head)])
        visit(i, view.tokens[static_cast<std::size_t>(i + head)]);
}

// A token's place is counted from its document's start: positions may begin anywhere.
model::Dropout dropout_of(const TokenView& view, const DropoutKey& key, c10::Device device) {
  WMTP_CHECK(view.sample_ids.size() + 1 == view.doc_start.size(),
             "dropout needs the sample id of every document");
  std::vector<std::int32_t> document(view.tokens.size()), place(view.tokens.size());
  for (std::size_t d = 0; d + 1 < view.doc_start.size(); ++d)
    for (std::int32_t i = view.doc_start[d]; i < view.doc_start[d + 1]; ++i) {
      document[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(d);
      place[static_cast<std::size_t>(i)] = i - view.doc_start[d];
    }
  return {.seed = key.seed,
          .step = key.step,
          .sample_ids = {view.sample_ids.begin(), view.sample_ids.end()},
          .document_N = copy_to_device<std::int32_t>(document, device),
          .position_N = copy_to_device<std::int32_t>(place, device)};
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

model::Batch upload_tokens(const TokenView& view, int num_heads, const Tensor& inv_freq_F,
                           const std::optional<DropoutKey>& dropout) {
  WMTP_CHECK(
      view.positions.size() == view.tokens.size() && view.target_mask.size() == view.tokens.size(),
      "a micro-batch has arrays of different lengths");
  const c10::Device device = inv_freq_F.device();
  model::Batch batch;
  batch.tokens_N = copy_to_device<std::int32_t>(view.tokens, device);
  batch.documents = kernels::make_documents({view.doc_start.begin(), view.doc_start.end()}, device);
  batch.rope =
      kernels::rope_table(copy_to_device<std::int32_t>(view.positions, device), inv_freq_F);
  if (dropout) batch.dropout = dropout_of(view, *dropout, device);
  for (int head = 1; head <= num_heads; ++head) {
    std::vector<std::int32_t> rows, targets;
    for_each_target(view, head, [&](std::int32_t row, std::int32_t target) {
      rows.push_back(row);
      targets.push_back(target);
    });
    batch.heads.push_back({copy_to_device<std::int32_t>(rows, device),
                           copy_to_device<std::int32_t>(targets, device)});
  }
  return batch;
}

}  // namespace wmtp::models
