// parallel::Gatherer without tensors: which gathers a rank starts when, and how long it waits for
// them. The order of a pass is known, as it is from a run's second pass on.
#pragma once
#include <vector>

#include "wmtp/run/plan/predict_step.h"

namespace wmtp::run {

class PredictedGathers {
 public:
  // BORROWS both.
  PredictedGathers(const StepModel& model, StepTimeline& timeline);

  void begin_pass();
  void acquire(std::size_t unit, bool backward);
  void release(std::size_t unit);
  void begin_update();
  void updated(std::size_t unit);

  void forget_costs() { waited_s_ = comm_s_ = 0; }
  double waited_s() const { return waited_s_; }
  double comm_s() const { return comm_s_; }

 private:
  struct Buffer {
    int holds = -1;
    bool in_use = false, awaited = false, under_way = false;
    StepTimeline::Ticket ticket = 0;
  };

  bool shards() const { return model_.sharding.group > 1; }
  bool has_own_buffer(std::size_t unit) const;
  Buffer* holder_of(std::size_t unit);
  Buffer* free_buffer(std::size_t unit);
  void fetch(std::size_t unit, Buffer& buffer);
  void settle(Buffer& buffer);
  void prefetch(bool backward);

  const StepModel& model_;
  StepTimeline& timeline_;
  std::size_t channel_ = 0;
  std::vector<std::size_t> order_;  // of a pass, without kept units
  std::vector<Buffer> slots_, own_;
  std::size_t position_ = 0;
  double waited_s_ = 0, comm_s_ = 0;
};

}  // namespace wmtp::run
