// A model that is only read: the reference of rho1, the value model of verifiable. Replicated, or
// sharded by the same runtime as the policy.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "wmtp/model/transformer.h"
#include "wmtp/models/model_source.h"
#include "wmtp/parallel/runtime.h"
#include "wmtp/training/device_batch.h"
#include "wmtp/training/runtime_access.h"
#include "wmtp/training/value_path.h"

namespace wmtp::training {

struct FrozenModelOptions {
  enum class Use { next_token_nll, values } use = Use::next_token_nll;
  DType dtype = kFloat32;                  // compute
  std::optional<DType> stored_dtype = {};  // of its weights; absent: as they are computed with
  bool quantize = false;                   // projection matrices are kept in NF4
  bool shard = false;
  int shard_group_size = 0;  // ranks that hold it together where it is sharded; 0: all
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  kernels::AttentionOptions attention;
  std::int64_t loss_chunk_rows = 0;
};

// An MTP model is read without its extra heads (next_token_nll) or any head (values).
model::ModelConfig frozen_config(const models::ModelSource& source, FrozenModelOptions::Use use);
// Error config where values are wanted and the source has no value head.
std::vector<layout::UnitSpec> frozen_units(const models::ModelSource& source,
                                           FrozenModelOptions::Use use, bool quantize = false);

class FrozenModel {
 public:
  // BORROWS the groups. Loads its weights. Error config where values are wanted and the source has
  // no value head.
  FrozenModel(const models::ModelSource& source, const FrozenModelOptions& options,
              const parallel::Groups& groups);

  // r_N: NLL of token t from the logits at t - 1, at the targets of head 1; 0 elsewhere. fp32.
  // COLLECTIVE where sharded.
  Tensor next_token_nll(const DeviceBatch& batch);
  Tensor values(const DeviceBatch& batch);  // v_N, fp32. COLLECTIVE where sharded

  // Told every batch's signal once it is enqueued.
  using Observer = std::function<void(const DeviceBatch&, const Tensor& signal_N)>;
  void observe(Observer observer) { observer_ = std::move(observer); }

  const model::ModelConfig& config() const { return config_; }
  bool sharded() const { return runtime_.options().shards_frozen(); }
  std::int64_t state_bytes() const { return runtime_.state_bytes() + runtime_.buffer_bytes(); }

 private:
  model::ModelConfig config_;
  parallel::Runtime runtime_;
  RuntimeAccess access_;
  model::Transformer transformer_;
  std::optional<ValuePath> value_;
  Tensor inv_freq_F_;
  Observer observer_;
};

}  // namespace wmtp::training
