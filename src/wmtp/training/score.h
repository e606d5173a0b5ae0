// Per-token losses of a model on rows of tokens, without gradients. Every rank holds the whole
// model and takes its share of the micro-batches; rank 0 puts the rows out in order.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "wmtp/comm/communicator.h"
#include "wmtp/model/local_weights.h"
#include "wmtp/model/transformer.h"
#include "wmtp/training/model_source.h"
#include "wmtp/training/token_rows.h"

namespace wmtp::training {

// nll[k - 1][i] of the prediction of ids[i + k]; nothing where there is no target.
using RowNll = std::vector<std::vector<std::optional<float>>>;

class Scorer {
 public:
  // Loads all weights in `dtype` onto `device`.
  Scorer(const ModelSource& source, DType dtype, c10::Device device);

  // One forward pass over all rows, packed end to end, and the first `num_heads` heads.
  std::vector<RowNll> score(std::span<const TokenRow> rows, int num_heads);
  const model::ModelConfig& config() const { return config_; }

 private:
  model::ModelConfig config_;
  model::LocalWeights weights_;
  model::Transformer transformer_;
  Tensor inv_freq_F_;
};

struct ScoreOptions {
  int num_heads = 1;
  std::int64_t batch_tokens = 2048;  // of a micro-batch; a longer row is one by itself
};

struct ScoreSummary {
  std::uint64_t num_tokens = 0;  // targets of head 1
  double nll_sum = 0;            // of head 1
};

// COLLECTIVE: all ranks read the same rows. `write` gets one JSON line a row, in row order, on rank
// 0 only; the summary too is rank 0's. Micro-batches, and so the numbers, do not depend on the
// number of ranks. A loss that is not finite is Error numeric.
ScoreSummary score_rows(Scorer& scorer, TokenRowSource& source, comm::Communicator& group,
                        const ScoreOptions& options,
                        const std::function<void(std::string_view line)>& write);

}  // namespace wmtp::training
