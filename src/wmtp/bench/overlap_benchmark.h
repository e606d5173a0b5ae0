// Training steps of a model of equal units over the sharding runtime, parts of which can be left
// out: what `wmtp bench overlap` times.
#pragma once
#include <vector>

#include "wmtp/optim/adamw.h"
#include "wmtp/parallel/runtime.h"

namespace wmtp::bench {

struct OverlapShape {
  int units = 24;                         // beside the root, which is as large and computes as much
  std::int64_t width = 384, rows = 2048;  // a unit: one weight of width x width; rows of its input
};

// Which parts of a step are done. Without gathers the weights of another place are used.
struct StepParts {
  bool computes = true, gathers = true, reduces = true;
};

// A unit's forward is one product with its weights, its backward two of the same size: the
// gradients of the input and of the weights. The update is AdamW's.
class OverlapModel {
 public:
  // BORROWS the groups.
  OverlapModel(const OverlapShape& shape, const parallel::ParallelOptions& options,
               const parallel::Groups& groups);

  void step(const StepParts& parts);  // COLLECTIVE
  void gather_root();                 // COLLECTIVE, BLOCKS: when nothing of it is there
  void prepare_root_gradient();
  void reduce_root();  // COLLECTIVE, BLOCKS. REQUIRES prepare_root_gradient()
  parallel::Runtime& runtime() { return runtime_; }

 private:
  void forward(const Tensor& weights);
  void backward(const Tensor& weights, const Tensor& grad);
  void update(const StepParts& parts);
  Tensor acquire(int unit, bool backward, const StepParts& parts);
  void backward_unit(int unit, const Tensor& weights, const StepParts& parts);

  OverlapShape shape_;
  parallel::Runtime runtime_;
  optim::AdamW optimizer_;
  Tensor input_, output_, grad_input_;  // rows x width
  Tensor local_weights_, local_grad_;   // of a step that does not communicate: units x weights, as
                                        // what is used again at once is read from a cache
  Tensor grad_scale_, apply_;
};

}  // namespace wmtp::bench
