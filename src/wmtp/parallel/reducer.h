// Gradients from where the model adds them up to where the optimizer reads them: each unit's
// sharded gradient, summed over micro-batches and ranks. A finished unit's reduction runs while the
// next unit computes: two slots used in turn, gradients land in one while the other is on the wire.
// With HYBRID_SHARD the reduced shard then crosses to the other groups, while the unit after that
// computes. Where a rank shares with nobody the slot is the gradient itself. Gradients in host
// memory (cpu_offload) always come through a slot on the device. THREADS: one. COLLECTIVE: all
// ranks close the same units in the same order.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <vector>

#include "wmtp/core/strong_ids.h"
#include "wmtp/parallel/groups.h"
#include "wmtp/parallel/unit_state.h"
#include "wmtp/tensor/side_stream.h"

namespace wmtp::parallel {

// Where a unit's gradient is added up, without padding; undefined if nothing in it is trained.
// `fresh`: nothing of this step is in it, and what it holds means nothing; it must all be written
// before close().
struct OpenGrad {
  Tensor flat;
  bool fresh = false;
};

class Reducer {
 public:
  // Hears of each unit that was opened in a step, once: the step's gradient is all in
  // UnitState::grad, in the order of the current STREAM. A unit whose gradient lies in host memory,
  // or is all-reduced where it lies (NO_SHARD of several ranks), is complete in finish() only.
  using Complete = std::function<void(UnitId)>;

  // BORROWS states and groups.
  Reducer(std::vector<UnitState>& states, const ParallelOptions& options,
          const comm::ShardGroups& groups);

  void tell_complete(Complete complete) { complete_ = std::move(complete); }
  void begin_step();
  // `last`: no further micro-batch of this step follows.
  void begin_micro_batch(bool last) { last_ = last; }
  OpenGrad open(UnitId unit);
  void close(UnitId unit);
  // BLOCKS (CPU, cpu_offload) or orders the stream (CUDA): every unit's sharded gradient is
  // complete, and zero where nobody opened it in this step.
  void finish();
  // The optimizer has read the unit's gradient.
  void updated(UnitId unit);

  std::int64_t buffer_bytes() const;

 private:
  struct Slot {
    Tensor whole;    // padded, reduce dtype
    Tensor reduced;  // where the sum appears: this rank's slice of `whole`, or the whole gradient
                     // where it is not sharded
    int unit = -1;   // whose reduction is under way
    bool last = false;  // of the unit in this step
    comm::Work work;
    SideStream::Mark copied;  // to the host (cpu_offload)
  };
  // A shard that is summed over the groups.
  struct Crossing {
    Tensor shard;  // the gradient itself, or its copy on the device or in the reduce dtype
    int unit = -1;
    comm::Work work;
  };

  bool unsharded() const { return !groups_.reduce; }
  bool crosses() const { return groups_.reduce && groups_.replicate; }
  bool alone() const { return !groups_.reduce && !groups_.replicate; }
  // The model adds to the gradient that is kept.
  bool adds_in_place() const { return unsharded() && !options_.offloads(); }
  Slot& slot_of(std::size_t unit);
  Tensor& grad_in_memory(std::size_t unit);
  void finish_reduction(Slot& slot);
  void send_home(std::size_t unit, Slot& slot);
  void reduce(std::size_t unit, Slot& slot);
  DType wire_dtype(const UnitState& state) const;
  void bring_home(std::size_t unit, const Tensor& reduced);
  void cross(std::size_t unit, const Tensor& reduced);
  void finish_crossing(Crossing& crossing);
  void complete(std::size_t unit);

  std::vector<UnitState>& states_;
  ParallelOptions options_;
  comm::ShardGroups groups_;
  SideStream copies_;                        // to the host
  std::vector<Slot> slots_;                  // in turn
  std::map<std::size_t, Slot> own_;          // kept units; every unit with no_sync or NO_SHARD
  std::map<std::size_t, std::size_t> open_;  // unit -> slot in turn
  std::vector<bool> reduced_;  // this step's gradient of the unit has had its first part
  std::vector<bool> opened_;   // in this step
  std::vector<bool> told_;     // that it is complete
  Complete complete_ = {};
  std::size_t turn_ = 0;
  std::array<Crossing, 2> crossings_;  // in turn
  std::size_t crossing_turn_ = 0;
  Slot* closed_last_ = nullptr;  // its shard crosses next
  bool last_ = true;
};

}  // namespace wmtp::parallel
