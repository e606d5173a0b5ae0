// The squared norm of this rank's gradient, each unit's part as soon as its gradient is complete:
// on a GPU beside the backward pass of the others, on a CPU while it is in the caches.
#pragma once
#include "wmtp/parallel/runtime.h"
#include "wmtp/tensor/side_stream.h"

namespace wmtp::training {

class GradNorms {
 public:
  // BORROWS the runtime, whose complete gradients it is told of from now on.
  explicit GradNorms(parallel::Runtime& runtime);
  GradNorms(const GradNorms&) = delete;
  GradNorms& operator=(const GradNorms&) = delete;

  void begin_step();
  // 0-d fp64 where the gradients are, added up in the order of the units, whatever the order in
  // which they were complete. REQUIRES Runtime::finish_grads(). STREAM.
  Tensor total();

 private:
  void add(UnitId unit);

  parallel::Runtime& runtime_;
  SideStream side_;
  SideStream::Mark added_;
  Tensor squared_norms_U_;  // fp64
};

}  // namespace wmtp::training
