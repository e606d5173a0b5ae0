// A micro-batch as a stage works on it: what the model reads, and what the documents are worth.
#pragma once
#include <cstdint>
#include <vector>

#include "wmtp/data/plan/host_batch.h"
#include "wmtp/data/plan/signal_cache.h"
#include "wmtp/kernels/responses.h"
#include "wmtp/model/batch.h"
#include "wmtp/models/upload.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::training {

struct DeviceBatch {
  DeviceBatch() = default;
  DeviceBatch(model::Batch batch) : model(std::move(batch)) {}  // a batch without rewards

  model::Batch model;
  // N tokens, D documents, as many as the model has: empty ones behind those of the host where
  // shapes are rounded. Undefined in a batch of tokens alone.
  kernels::Responses docs;
  Tensor pair_role_D;         // uint8, PairRole
  Tensor ref_nll_N, value_N;  // cached signals, fp32; undefined: none
  Tensor drawn_N;             // what a stage drew on the host for the batch; undefined: nothing yet
  // The same on the host, for what is drawn there; D without the empty ones.
  std::vector<std::uint64_t> sample_ids;        // D
  std::vector<std::int32_t> doc_start;          // D + 1
  std::vector<std::uint8_t> mask;               // N
  std::vector<std::int32_t> tokens, positions;  // N
  std::vector<std::optional<bool>> correct;     // D, or empty: no row says whether it is right
  std::uint64_t epoch = 0;
  // Where signals of a frozen model are kept (null: nowhere; BORROWS), and what samples the
  // documents are, where the batch came from a data set: fillers left out.
  data::SignalCache* signal_cache = nullptr;
  std::vector<data::SignalRow> signal_rows;

  std::int64_t num_docs() const { return static_cast<std::int64_t>(sample_ids.size()); }
};

struct UploadOptions {
  int num_heads = 1;
  Tensor inv_freq_F;                               // of the model that reads it, on the device
  std::optional<models::DropoutKey> dropout = {};  // none: evaluation
  models::BatchShape shape = models::BatchShape::exact;
};

// STREAM: copies are enqueued, the batch may be dropped once the stream has passed them. A batch
// without a single token becomes one filler token without a target, so that it can run its
// collectives.
DeviceBatch upload_batch(const data::HostBatch& host, const UploadOptions& options);
// The same of tokens with a reward for each document, all of them single.
DeviceBatch upload_batch(const models::TokenView& view, std::span<const float> reward_D,
                         const UploadOptions& options);
Tensor upload_values(std::span<const float> values_N, c10::Device device);

// A cached signal for a batch that brings none: zeros, which nobody reads. REQUIRES a batch without
// a response, such as the filler of a rank that has no sample; Error internal for any other.
Tensor unread_signal(const DeviceBatch& batch);

// The same tokens for another model: its own RoPE angles and the targets of its heads.
model::Batch batch_for(const DeviceBatch& batch, int num_heads, const Tensor& inv_freq_F);

}  // namespace wmtp::training
