#include "wmtp/training/device_batch.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "wmtp/core/error.h"
#include "wmtp/models/upload.h"
#include "wmtp/tensor/copy_to_device.h"

namespace wmtp::training {
namespace {

std::vector<std::optional<bool>> labels_of(const data::HostBatch& host) {
  std::vector<std::optional<bool>> correct(host.num_docs());
  for (std::size_t d = 0; d < correct.size(); ++d)
    if (host.has_reward[d] != 0) correct[d] = host.reward[d] > 0;
  return correct;
}

models::TokenView view_of(const data::HostBatch& host) {
  WMTP_CHECK(host.row_stride == 0 || host.num_tokens() > 0, "a padded batch without tokens");
  return {host.tokens, host.positions, host.doc_start, host.target_mask, host.sample_id};
}

// One token of no document's response: it runs through the model and changes nothing.
struct Filler {
  std::array<std::int32_t, 1> token{0}, position{0};
  std::array<std::int32_t, 2> doc_start{0, 1};
  std::array<std::uint8_t, 1> mask{0};
  std::array<std::uint64_t, 1> sample_id{0};
  std::array<float, 1> reward{0};
  std::array<std::uint8_t, 1> pair_role{0};
  models::TokenView view() const { return {token, position, doc_start, mask, sample_id}; }
};

std::vector<std::int32_t> documents(std::span<const std::int32_t> doc_start) {
  std::vector<std::int32_t> of_token;
  for (std::size_t d = 0; d + 1 < doc_start.size(); ++d)
    of_token.insert(of_token.end(), static_cast<std::size_t>(doc_start[d + 1] - doc_start[d]),
                    static_cast<std::int32_t>(d));
  return of_token;
}

// With zeros: the reward of an empty document, which is single.
template <class T>
std::vector<T> filled_up(std::span<const T> values_D, std::size_t num_documents) {
  std::vector<T> filled(values_D.begin(), values_D.end());
  filled.resize(num_documents, T(0));
  return filled;
}

DeviceBatch assemble(const models::TokenView& view, std::span<const float> rewards,
                     std::span<const std::uint8_t> pair_roles, const UploadOptions& options) {
  const c10::Device device = options.inv_freq_F.device();
  DeviceBatch batch(models::upload_tokens(view, options.num_heads, options.inv_freq_F,
                                          options.dropout, options.shape));
  const std::vector<std::int32_t> of_token = documents(view.doc_start);
  const std::vector<std::int32_t>& start = batch.model.documents.start;
  const std::vector<float> reward = filled_up(rewards, start.size() - 1);
  const std::vector<std::uint8_t> role = filled_up(pair_roles, start.size() - 1);
  batch.docs = {.doc_start_D1 = copy_to_device<std::int32_t>(start, device),
                .document_N = copy_to_device(std::span<const std::int32_t>(of_token), device),
                .mask_N = copy_to_device(view.target_mask, device),
                .reward_D = copy_to_device<float>(reward, device)};
  batch.pair_role_D = copy_to_device<std::uint8_t>(role, device);
  batch.sample_ids.assign(view.sample_ids.begin(), view.sample_ids.end());
  batch.doc_start.assign(view.doc_start.begin(), view.doc_start.end());
  batch.mask.assign(view.target_mask.begin(), view.target_mask.end());
  batch.tokens.assign(view.tokens.begin(), view.tokens.end());
  batch.positions.assign(view.positions.begin(), view.positions.end());
  return batch;
}

}  // namespace

DeviceBatch upload_batch(const data::HostBatch& host, const UploadOptions& options) {
  if (host.num_tokens() == 0) {
    const Filler filler;
    return assemble(filler.view(), filler.reward, filler.pair_role, options);
  }
  DeviceBatch batch = assemble(view_of(host), host.reward, host.pair_role, options);
  batch.epoch = host.epoch;
  batch.correct = labels_of(host);
  const c10::Device device = options.inv_freq_F.device();
  if (!host.ref_nll.empty()) batch.ref_nll_N = upload_values(host.ref_nll, device);
  if (!host.value.empty()) batch.value_N = upload_values(host.value, device);
  return batch;
}

DeviceBatch upload_batch(const models::TokenView& view, std::span<const float> reward_D,
                         const UploadOptions& options) {
  return assemble(view, reward_D, std::vector<std::uint8_t>(reward_D.size(), kSingle), options);
}

Tensor upload_values(std::span<const float> values_N, c10::Device device) {
  return copy_to_device(values_N, device);
}

Tensor unread_signal(const DeviceBatch& batch) {
  WMTP_CHECK(std::ranges::count(batch.mask, 1) == 0,
             "a batch without its cached signal needs the model that computes it");
  return at::zeros(batch.docs.mask_N.sizes(), batch.docs.mask_N.options().dtype(at::kFloat));
}

model::Batch batch_for(const DeviceBatch& batch, int num_heads, const Tensor& inv_freq_F) {
  return models::upload_tokens(
      {batch.tokens, batch.positions, batch.doc_start, batch.mask, batch.sample_ids}, num_heads,
      inv_freq_F);
}

}  // namespace wmtp::training
