// The FSDP runtime: this rank's shards, the weights when a unit needs them, the gradients when a
// unit has them. It knows units and flat ranges, never a model. One process is not wrapped and pays
// nothing: its buffers alias.
#pragma once
#include <functional>
#include <vector>

#include "wmtp/comm/communicator.h"
#include "wmtp/parallel/gatherer.h"
#include "wmtp/parallel/groups.h"
#include "wmtp/parallel/pending_updates.h"
#include "wmtp/parallel/reducer.h"
#include "wmtp/parallel/unit_state.h"

namespace wmtp::parallel {

class Runtime {
 public:
  Runtime(const std::vector<layout::UnitSpec>& units, const ParallelOptions& options,
          const Groups& groups);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Sharded initialisation: only ranges this rank owns are asked for. `stored`: what the source
  // holds in NF4 already, which quantised parameters keep as it is. COLLECTIVE where those are
  // sharded.
  void fill(const ReadParam& values, const ReadNf4& stored = {});
  // For measurements: units of the same shape get the numbers of the first of them (unit_state.h).
  void fill_alike(const ReadParam& values);

  void begin_step();
  void begin_micro_batch(bool last);
  // A pass without gradients (validation); `kind` > 0 names passes that acquire alike.
  void begin_evaluation(int kind = 1) { gatherer_.begin_pass(kind); }

  UnitWeights acquire(UnitId unit, bool backward) { return gatherer_.acquire(unit, backward); }
  void release(UnitId unit) { gatherer_.release(unit); }
  OpenGrad open_grad(UnitId unit) {
    pending_.wait_for(unit);  // its last gradient may still be read
    return reducer_.open(unit);
  }
  void close_grad(UnitId unit) { reducer_.close(unit); }
  // All gradients of the step are home: states()[u].grad.
  void finish_grads() {
    settle();  // one that nobody opened is zeroed, which its last update may still read
    reducer_.finish();
  }
  // `complete` hears of each unit's gradient as soon as it is (Reducer::Complete).
  void tell_complete(Reducer::Complete complete) { reducer_.tell_complete(std::move(complete)); }
  // Before the optimizer changes the masters, and each unit's update (pending_updates.h): it runs
  // beside what follows, the first gathers of the next step start behind their own, and a
  // gradient's memory goes when it was read.
  void begin_update() {
    pending_.wait_for_all();
    gatherer_.begin_update();
  }
  void update_unit(UnitId unit, const std::function<void()>& update) {
    pending_.run(unit, update);
    gatherer_.updated(unit);
  }
  // The current STREAM goes on behind all updates: to be called before the masters or the
  // optimizer's state are read other than through acquire(), or written. states() does it too.
  void settle() const { pending_.wait_for_all(); }
  // Nothing is gathered any more, nor on its way: to be called after the masters were changed in
  // another way, and before a step that is replayed.
  void forget_gathered() { gatherer_.invalidate(); }

  std::vector<UnitState>& states() {
    settle();
    return states_;
  }
  const std::vector<UnitState>& states() const {
    settle();
    return states_;
  }
  // Of one unit's shard, as it is by now: no update is waited for.
  const Tensor& grad(UnitId unit) const {
    return states_.at(static_cast<std::size_t>(unit.value())).grad;
  }
  const ParallelOptions& options() const { return options_; }
  const Placement& placement() const { return placement_; }
  // Which of the ranks' copies counts once in a sum over ranks: all shards of the first replica.
  bool counts_once() const { return placement_.replica() == 0; }
  std::int64_t state_bytes() const;  // masters, gradients, copies, frozen weights
  std::int64_t buffer_bytes() const { return gatherer_.buffer_bytes() + reducer_.buffer_bytes(); }

  // One whole parameter after the other on rank 0's host (fp32; frozen ones in their own dtype,
  // of units with parameters in NF4 in fp32, dequantised), a unit at a time. COLLECTIVE, BLOCKS
  // (within the first replica). `take` is called on rank 0 only.
  using Take = std::function<void(const layout::ParamSpec&, const Tensor& whole)>;
  void gather_full(const Take& take);

 private:
  void fill_from(FillSources sources);
  void gather_bucket(const layout::BucketPlan& plan, const Tensor& shard, const Take& take);

  ParallelOptions options_;
  Placement placement_;
  comm::ShardGroups groups_;
  std::vector<UnitState> states_;
  mutable PendingUpdates pending_;
  Gatherer gatherer_;
  Reducer reducer_;
};

}  // namespace wmtp::parallel
