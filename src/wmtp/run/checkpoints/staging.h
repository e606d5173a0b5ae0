// A copy of the state on the host, so that training goes on while it is written. The memory is
// allocated once and used again by every save.
#pragma once
#include <thread>
#include <vector>

#include "wmtp/checkpoint/save/shard_writer.h"
#include "wmtp/run/checkpoints/state_tensors.h"

namespace wmtp::run {

class StagingArena {
 public:
  enum class Staged { copied, borrowed };

  // Begins to allocate the memory that stage() needs for such pieces, in a thread that also touches
  // its pages; stage() waits for it. Where it does not fit into `budget_bytes`, or fails, nothing
  // is said: stage() meets the same. REQUIRES pieces of one device, and to be called once at most.
  void prepare(const std::vector<StatePiece>& pieces, std::int64_t budget_bytes);

  // BLOCKS until every value is copied: what is written are the values of this call. Where the copy
  // does not fit into `budget_bytes` of host memory, the state is borrowed as it is, and must not
  // change until it is written; from a GPU it is then read in blocks while it is written.
  Staged stage(const std::vector<StatePiece>& pieces, std::int64_t budget_bytes);

  // Of the last stage(); BORROWS the arena until the next one.
  const std::vector<checkpoint::TensorPiece>& model() const { return model_; }
  const std::vector<checkpoint::TensorPiece>& optim() const { return optim_; }

 private:
  bool reserve(std::int64_t bytes, bool pinned, std::int64_t budget_bytes);

  Tensor arena_;                  // bytes; pinned where the state is on a GPU
  std::vector<Tensor> borrowed_;  // instead of a copy
  std::vector<checkpoint::TensorPiece> model_, optim_;
  std::jthread preparing_;  // the only one that touches arena_ until it is joined
};

}  // namespace wmtp::run
