// A copy of the state on the host, so that training goes on while it is written. The memory is
// allocated once and used again by every save.
#pragma once
#include <vector>

#include "wmtp/commit/shard_writer.h"
#include "wmtp/training/checkpoints/state_tensors.h"

namespace wmtp::training {

class StagingArena {
 public:
  // BLOCKS until every value is copied: what is written are the values of this call.
  void stage(const std::vector<StatePiece>& pieces);

  // Of the last stage(); BORROWS the arena until the next one.
  const std::vector<commit::TensorPiece>& model() const { return model_; }
  const std::vector<commit::TensorPiece>& optim() const { return optim_; }
  std::int64_t bytes() const { return arena_.defined() ? arena_.numel() : 0; }

 private:
  Tensor arena_;  // bytes; pinned where the state is on a GPU
  std::vector<commit::TensorPiece> model_, optim_;
};

}  // namespace wmtp::training
