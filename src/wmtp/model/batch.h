// What the model reads of a micro-batch, on its device. N tokens of all documents end to end
// (padded rows are documents too), M_k of them with a target for head k.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "wmtp/kernels/attention.h"
#include "wmtp/kernels/rope.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::model {

// The rows at which one head predicts, and what.
struct HeadTargets {
  Tensor rows_M;     // int32, ascending; source positions i
  Tensor targets_M;  // int32; token i + k
  // fp32: 1 where the row has a target, 0 where it only fills up. Undefined: all have one. What a
  // row of 0 gives means nothing, and its loss is to be left out.
  Tensor present_M = {};
  std::int64_t count() const { return rows_M.size(0); }
};

// What dropout masks are drawn from (kernels/dropout.h), for all S sites of a model. What changes
// from step to step are numbers of the device.
struct Dropout {
  std::uint64_t seed = 0;
  std::vector<std::string> sites;  // their names, in the order of the streams
  Tensor streams_SD;               // int64
  Tensor document_N, position_N;   // int32
};

struct Batch {
  Tensor tokens_N;  // int32
  kernels::Documents documents;
  kernels::RopeTable rope;
  std::vector<HeadTargets> heads;  // one per prediction head; may be empty for value-only passes
  std::optional<Dropout> dropout = {};  // absent: evaluation, or a model without dropout
  std::int64_t num_tokens() const { return tokens_N.size(0); }
};

}  // namespace wmtp::model
