#include "wmtp/models/upload.h"

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/model/dropout_mask.h"
#include "wmtp/tensor/copy_to_device.h"

namespace wmtp::models {
namespace {

constexpr std::size_t kLeastRowMultiple = 64, kRowShares = 8;

template <class Visit>
void for_each_target(const TokenView& view, std::int32_t head, Visit visit) {
  for (std::size_t d = 0; d + 1 < view.doc_start.size(); ++d)
    for (std::int32_t i = view.doc_start[d]; i + head < view.doc_start[d + 1]; ++i)
      if (view.target_mask[static_cast<std::size_t>(i + head)])
        visit(i, view.tokens[static_cast<std::size_t>(i + head)]);
}

// A token's place is counted from its document's start: positions may begin anywhere.
model::Dropout dropout_of(const TokenView& view, const DropoutKey& key, std::int64_t num_documents,
                          c10::Device device) {
  WMTP_CHECK(view.sample_ids.size() + 1 == view.doc_start.size(),
             "dropout needs the sample id of every document");
  std::vector<std::int32_t> document(view.tokens.size()), place(view.tokens.size());
  for (std::size_t d = 0; d + 1 < view.doc_start.size(); ++d)
    for (std::int32_t i = view.doc_start[d]; i < view.doc_start[d + 1]; ++i) {
      document[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(d);
      place[static_cast<std::size_t>(i)] = i - view.doc_start[d];
    }
  return {.seed = key.seed,
          .sites = {key.sites.begin(), key.sites.end()},
          .streams_SD =
              model::dropout_streams(key.sites, key.step, view.sample_ids, num_documents, device),
          .document_N = copy_to_device<std::int32_t>(document, device),
          .position_N = copy_to_device<std::int32_t>(place, device)};
}

struct HeadRows {
  std::vector<std::int32_t> rows, targets;
  std::vector<float> present;  // empty: every row has a target
};

HeadRows rows_of(const TokenView& view, std::int32_t head) {
  HeadRows head_rows;
  for_each_target(view, head, [&](std::int32_t row, std::int32_t target) {
    head_rows.rows.push_back(row);
    head_rows.targets.push_back(target);
  });
  return head_rows;
}

// The first head has the most targets.
std::size_t num_rounded_rows(std::span<const std::int64_t> counts, std::size_t num_tokens) {
  const std::size_t most = static_cast<std::size_t>(std::ranges::max(counts));
  const std::size_t multiple = std::max(kLeastRowMultiple, num_tokens / kRowShares);
  return std::min((most + multiple - 1) / multiple * multiple, num_tokens);
}

// With the first rows that have no target, in ascending order: gradients go back to rows, of which
// none may come twice.
HeadRows filled_up(const HeadRows& exact, std::size_t num_rows) {
  HeadRows filled;
  std::size_t next = 0, to_fill = num_rows - exact.rows.size();
  for (std::int32_t row = 0; filled.rows.size() < num_rows; ++row) {
    const bool present = next < exact.rows.size() && exact.rows[next] == row;
    if (!present && to_fill == 0) continue;
    filled.rows.push_back(row);
    filled.targets.push_back(present ? exact.targets[next] : 0);
    filled.present.push_back(present ? 1 : 0);
    present ? ++next : --to_fill;
  }
  return filled;
}

model::HeadTargets uploaded(const HeadRows& head, c10::Device device) {
  model::HeadTargets targets{copy_to_device<std::int32_t>(head.rows, device),
                             copy_to_device<std::int32_t>(head.targets, device)};
  if (!head.present.empty()) targets.present_M = copy_to_device<float>(head.present, device);
  return targets;
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
                           const std::optional<DropoutKey>& dropout, BatchShape shape) {
  WMTP_CHECK(
      view.positions.size() == view.tokens.size() && view.target_mask.size() == view.tokens.size(),
      "a micro-batch has arrays of different lengths");
  const c10::Device device = inv_freq_F.device();
  model::Batch batch;
  batch.tokens_N = copy_to_device<std::int32_t>(view.tokens, device);
  std::vector<std::int32_t> start(view.doc_start.begin(), view.doc_start.end());
  batch.documents = shape == BatchShape::rounded
                        ? kernels::make_rounded_documents(std::move(start), device)
                        : kernels::make_documents(std::move(start), device);
  batch.rope =
      kernels::rope_table(copy_to_device<std::int32_t>(view.positions, device), inv_freq_F);
  if (dropout && !dropout->sites.empty())
    batch.dropout = dropout_of(view, *dropout, std::ssize(batch.documents.start) - 1, device);
  const std::vector<std::int64_t> counts = count_targets(view, num_heads);
  for (int head = 1; head <= num_heads; ++head) {
    HeadRows rows = rows_of(view, head);
    if (shape == BatchShape::rounded)
      rows = filled_up(rows, num_rounded_rows(counts, view.tokens.size()));
    batch.heads.push_back(uploaded(rows, device));
  }
  return batch;
}

}  // namespace wmtp::models
