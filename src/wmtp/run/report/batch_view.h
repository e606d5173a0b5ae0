// A batch as people see it: decoded documents with what the stage makes of each token, and how its
// weights and values are spread.
#pragma once
#include <cstdint>
#include <vector>

#include "wmtp/tokenizer/tokenizer.h"
#include "wmtp/tracking/histogram.h"
#include "wmtp/tracking/sample_view.h"
#include "wmtp/training/objective.h"

namespace wmtp::run {

// A batch and what the stage makes of it. BORROWS.
struct ShownBatch {
  const training::DeviceBatch& batch;
  const training::TokenMarks& marks;
  const char* split;  // "train" or "validation"
};

// The first `most` documents that are no fillers, without step, stage and split. A token is a
// target where some head predicts it: never the first one of a document.
std::vector<tracking::DecodedSample> decoded_documents(const training::DeviceBatch& batch,
                                                       const training::TokenMarks& marks,
                                                       const tokenizer::Tokenizer& tokenizer,
                                                       std::size_t most);

// "weight" of the targets; where each head has weights of its own, of those of all heads together,
// and "weight of head <k>" (k from 1) of each. "value" of the tokens of responses. Empty where the
// stage has neither.
std::vector<tracking::Histogram> batch_histograms(std::int64_t step,
                                                  const training::DeviceBatch& batch,
                                                  const training::TokenMarks& marks);

}  // namespace wmtp::run
