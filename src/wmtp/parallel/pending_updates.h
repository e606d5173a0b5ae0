// The optimizer's passes beside the next forward pass: each unit's update runs on a second stream,
// and whoever needs the unit waits for it alone. On a CPU, and where the optimizer works in host
// memory, updates are done when they are begun and nothing is ever pending. THREADS: one.
#pragma once
#include <functional>
#include <vector>

#include "wmtp/core/strong_ids.h"
#include "wmtp/parallel/options.h"
#include "wmtp/parallel/update_share.h"
#include "wmtp/tensor/side_stream.h"

namespace wmtp::parallel {

class PendingUpdates {
 public:
  // `done` is told of each unit once nothing of its update can run any more, in the order of the
  // current STREAM: then the memory of its gradient may go.
  PendingUpdates(const ParallelOptions& options, std::size_t num_units,
                 std::function<void(UnitId)> done);

  // Before the updates of a step: how they share the GPU with what comes next. REQUIRES that
  // nothing is pending.
  void begin(const UpdateShare& share);
  // STREAM: behind all that the current one has been given. What `update` works on keeps its
  // memory until the unit was waited for. The first two units are wanted at once and have all of
  // the GPU.
  using Update = std::function<void(int multiprocessors)>;
  void run(UnitId unit, const Update& update);
  // The current STREAM goes on behind the unit's update, if one is pending. When so many units were
  // waited for as the share says, it waits for all: the gradients of the rest give way to the
  // activations of the pass.
  void wait_for(UnitId unit);
  void wait_for_all();

 private:
  struct Pending {
    bool pending = false;
    SideStream::Mark mark;
  };
  void settle(std::size_t unit);
  void share_products(int multiprocessors);

  SideStream side_;
  UpdateShare share_;
  bool shares_ = false;  // products leave multiprocessors to the updates
  std::vector<Pending> units_;
  std::function<void(UnitId)> done_;
  std::size_t num_run_ = 0, num_pending_ = 0;  // since nothing was pending
};

}  // namespace wmtp::parallel
