// The squared norm of this rank's gradient, each unit's part as soon as its gradient is complete
// (Reducer::Complete): on a GPU beside the backward pass of the others, on a CPU while it is in the
// caches.
#pragma once
#include "wmtp/parallel/runtime.h"
#include "wmtp/tensor/side_stream.h"

namespace wmtp::training {

class GradNorms {
 public:
  // BORROWS the runtime. `beside`: on a GPU upon a second stream, which joins the current one in
  // total() only.
  GradNorms(parallel::Runtime& runtime, bool beside);
  GradNorms(const GradNorms&) = delete;
  GradNorms& operator=(const GradNorms&) = delete;

  void begin_step();  // from here on it is told of complete gradients
  // 0-d fp64 where the gradients are, the sum over the units in their order, whatever the order in
  // which they were complete: the same bits each time. REQUIRES Runtime::finish_grads(). STREAM.
  Tensor total();

 private:
  void add(UnitId unit);

  parallel::Runtime& runtime_;
  SideStream side_;
  SideStream::Mark added_;
  Tensor squared_norms_U_;  // fp64
};

}  // namespace wmtp::training
