// Per-token losses of a model on rows of tokens, without gradients. Every rank holds the whole
// model and takes its share of the micro-batches; rank 0 puts the rows out in order.
#pragma once
#include <span>
#include <vector>

#include "wmtp/comm/communicator.h"
#include "wmtp/model/local_weights.h"
#include "wmtp/model/transformer.h"
#include "wmtp/models/model_source.h"
#include "wmtp/models/scoring/score_lines.h"
#include "wmtp/models/scoring/token_rows.h"

namespace wmtp::models {

class Scorer {
 public:
  // Loads all weights in `dtype` onto `device`.
  Scorer(const ModelSource& source, DType dtype, c10::Device device);

  // One forward pass over all rows, packed end to end, and the first `num_heads` heads.
  std::vector<ByTarget> score(std::span<const TokenRow> rows, int num_heads);
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

// COLLECTIVE: all ranks read the same rows. `write` gets one JSON line a row, in row order, on rank
// 0 only; the summary too is rank 0's. Micro-batches, and so the numbers, do not depend on the
// number of ranks. A loss that is not finite is Error numeric.
ScoreSummary score_rows(Scorer& scorer, TokenRowSource& source, comm::Communicator& group,
                        const ScoreOptions& options, const WriteLine& write);

}  // namespace wmtp::models
