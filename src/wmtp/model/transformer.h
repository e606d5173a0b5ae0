// The whole model as the training step drives it, on one micro-batch:
//   trunk forward; then head by head: forward, loss, backward into the trunk's gradient; then the
//   trunk's backward.
// Heads are parallel: each is one block on the same trunk output, then the shared final norm and
// unembedding. A plain next-token model has one head without a block. Logits of one chunk of one
// head are all that ever exists. Units: 0 the root (embedding, unembedding, final norm), then trunk
// blocks, then head blocks.
#pragma once
#include <memory>
#include <vector>

#include "wmtp/model/batch.h"
#include "wmtp/model/block.h"
#include "wmtp/model/lora.h"
#include "wmtp/model/model_config.h"
#include "wmtp/model/unit_views.h"
#include "wmtp/model/weight_access.h"

namespace wmtp::model {

struct TransformerOptions {
  Recompute recompute = Recompute::none;
  kernels::AttentionOptions attention;
  std::int64_t loss_chunk_rows = 0;     // 0: the kernel's own choice
  std::optional<LoraConfig> lora = {};  // the units are those of lora_units
  // Of the products with the matrices of blocks, heads' blocks too; embedding, unembedding, norms,
  // attention and adapters compute as without it.
  kernels::Float8Recipe float8 = kernels::Float8Recipe::off;
};

// The root unit, held from the trunk's forward to the end of its backward.
class HeldRoot {
 public:
  HeldRoot(const ModelConfig& config, WeightAccess& access, GradSink* sink);
  const RootParams& params() const { return params_; }

 private:
  AcquiredUnit unit_;
  RootParams params_;
};

struct TrunkPass {
  std::unique_ptr<HeldRoot> root;
  Tensor hidden_ND;                      // the trunk's output
  std::vector<BlockActivations> blocks;  // empty without `keep`
  Tensor dhidden_ND;                     // what the heads have handed back so far
};

// One head between its forward and its backward; holds its block's weights.
struct HeadPass {
  int head = 0;                        // from 0
  std::unique_ptr<AcquiredUnit> unit;  // null for a plain model
  BlockParams params;
  BlockActivations kept;
  Tensor stream_MD, rstd_M, normed_MD;  // around the final norm; M = rows with a target
};

class Transformer {
 public:
  // BORROWS access and sink. sink null: no gradients, nothing is kept. Error config for float8 with
  // sizes that its products cannot take.
  Transformer(const ModelConfig& config, WeightAccess& access, GradSink* sink,
              const TransformerOptions& options = {});

  const ModelConfig& config() const { return config_; }

  TrunkPass forward_trunk(const Batch& batch);
  HeadPass forward_head(const TrunkPass& trunk, const Batch& batch, int head);
  // Per-row NLL of the head's targets, fp32 (fp64). No gradient.
  Tensor nll(const TrunkPass& trunk, const HeadPass& pass, const Batch& batch) const;
  // NLL again, with the backward: scale_M is each row's weight over its normaliser. Adds to the
  // trunk's gradient. `selected_C` (int32, ascending): only these of the M rows have a loss, and
  // scale and result are theirs.
  Tensor backward_head(TrunkPass& trunk, HeadPass pass, const Batch& batch, const Tensor& scale_M,
                       const Tensor& selected_C = {});
  // Consumes the pass. REQUIRES at least one backward_head, or dhidden_ND set.
  void backward_trunk(TrunkPass trunk, const Batch& batch);
  // [M, V] of one head, materialised: for tests and generation, never for training.
  Tensor logits(const TrunkPass& trunk, const HeadPass& pass) const;

 private:
  // Acquires the root into the pass; the first stream.
  Tensor embed(const Batch& batch, TrunkPass& pass);
  UnitId trunk_unit(std::int64_t block) const { return UnitId(static_cast<int>(1 + block)); }
  UnitId head_unit(int head) const {
    return UnitId(static_cast<int>(1 + num_trunk_blocks_ + head));
  }
  std::string block_name(UnitId unit) const;
  // Views of a block's weights, adapters included; `grad` undefined: forward only.
  BlockParams params_of(UnitId unit, const UnitBuffers& buffers, const UnitGrad& grad,
                        const Batch& batch, const Tensor& rows_M = {}) const;
  BlockContext context(const Batch& batch) const {
    return {&batch.documents, &batch.rope, options_.attention};
  }

  ModelConfig config_;
  WeightAccess& access_;
  GradSink* sink_;
  TransformerOptions options_;
  Block block_;
  std::int64_t num_trunk_blocks_;
};

}  // namespace wmtp::model
