// Pairs of documents: a positive (right) one and, behind it, its negative. D documents.
#pragma once
#include "wmtp/core/pair_role.h"
#include "wmtp/tensor/tensor.h"

namespace wmtp::losses {

struct PairGaps {
  Tensor is_pair_D;  // bool: a positive document whose pair has two non-empty responses
  Tensor gap_D;      // fp64: vbar+ - vbar- there, 0 elsewhere
};
// stats_DS: kernels/response_stats.h; role_D: uint8.
PairGaps pair_gaps(const Tensor& stats_DS, const Tensor& role_D);

// The entry of the document behind, or before, each one; 0 (false) where there is none.
Tensor of_next(const Tensor& values_D);
Tensor of_previous(const Tensor& values_D);

}  // namespace wmtp::losses
