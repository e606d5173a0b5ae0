// The optimizer's passes beside the next forward pass: each unit's update runs on a second stream,
// and whoever needs the unit waits for it alone. On a CPU, and where the optimizer works in host
// memory, updates are done when they are begun and nothing is ever pending. THREADS: one.
#pragma once
#include <functional>
#include <vector>

#include "wmtp/core/strong_ids.h"
#include "wmtp/parallel/options.h"
#include "wmtp/tensor/side_stream.h"

namespace wmtp::parallel {

class PendingUpdates {
 public:
  // `done` is told of each unit once nothing of its update can run any more, in the order of the
  // current STREAM: then the memory of its gradient may go.
  PendingUpdates(const ParallelOptions& options, std::size_t num_units,
                 std::function<void(UnitId)> done);

  // STREAM: behind all that the current one has been given. What `update` works on keeps its
  // memory until the unit was waited for.
  void run(UnitId unit, const std::function<void()>& update);
  // The current STREAM goes on behind the unit's update, if one is pending. From the middle on it
  // waits for all: a forward pass takes several times as long as the updates, and the gradients
  // of the rest give way to its activations.
  void wait_for(UnitId unit);
  void wait_for_all();

 private:
  struct Pending {
    bool pending = false;
    SideStream::Mark mark;
  };
  void settle(std::size_t unit);

  SideStream side_;
  std::vector<Pending> units_;
  std::function<void(UnitId)> done_;
  std::size_t num_run_ = 0, num_pending_ = 0;  // since nothing was pending
};

}  // namespace wmtp::parallel
