// parallel::Reducer without tensors: which reductions a rank starts when, and how long it waits for
// them. Two slots in turn, as there; a reduced shard crosses to the replicas once a step, when the
// next unit is closed, and two crossings are under way at most.
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "wmtp/run/plan/predict_step.h"

namespace wmtp::run {

class PredictedReductions {
 public:
  // BORROWS both.
  PredictedReductions(const StepModel& model, StepTimeline& timeline);

  void begin_micro_batch(bool last) { last_ = last; }
  void open(std::size_t unit);
  void close(std::size_t unit);
  void finish();

  void forget_costs() { waited_s_ = cross_waited_s_ = comm_s_ = 0; }
  double waited_s() const { return waited_s_; }
  double cross_waited_s() const { return cross_waited_s_; }
  double comm_s() const { return comm_s_; }

 private:
  struct Slot {
    int unit = -1;  // whose reduction is under way
    bool last = false;
    StepTimeline::Ticket ticket = 0;
  };
  using Crossing = std::optional<StepTimeline::Ticket>;

  bool trained(std::size_t unit) const { return model_.units[unit].reduce_bytes > 0; }
  bool sharded() const { return model_.sharding.group > 1; }
  bool replicated() const { return model_.sharding.replicas() > 1; }
  bool has_own_slot(std::size_t unit) const;
  Slot& slot_of(std::size_t unit);
  StepTimeline::Ticket start(std::size_t channel, const Transfer& transfer);
  StepTimeline::Ticket all_reduce(double bytes);
  void finish_reduction(Slot& slot);
  void cross(std::size_t unit);
  void finish_crossing(Crossing& crossing);

  const StepModel& model_;
  StepTimeline& timeline_;
  std::size_t reduce_channel_ = 0, replicate_channel_ = 0;
  std::array<Slot, 2> slots_;  // in turn
  std::vector<Slot> own_;
  std::vector<std::size_t> in_turn_;  // unit -> its slot of the two
  std::size_t turn_ = 0, crossing_turn_ = 0;
  std::array<Crossing, 2> crossings_;
  Slot* closed_last_ = nullptr;
  bool last_ = true;
  double waited_s_ = 0, cross_waited_s_ = 0, comm_s_ = 0;
};

}  // namespace wmtp::run
