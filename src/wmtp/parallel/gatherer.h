// Whole units of weights when they are needed. A unit is gathered into a persistent slot, the next
// ones while this one computes: the order of a pass is recorded the first time and prefetched from
// then on. Under SHARD_GRAD_OP every unit has a buffer of its own and is gathered once a step,
// ahead of its use all the same; only where frozen weights are converted on the way does a unit
// share the slots. Units marked `kept` always have their own buffer and stand at both ends of a
// pass: they are not prefetched. THREADS: one. COLLECTIVE: all ranks acquire the same units in the
// same order.
#pragma once
#include <map>
#include <vector>

#include "wmtp/comm/communicator.h"
#include "wmtp/core/strong_ids.h"
#include "wmtp/parallel/unit_state.h"

namespace wmtp::parallel {

struct UnitWeights {
  Tensor trained, frozen;  // without padding, compute dtype; undefined where the unit has none
};

class Gatherer {
 public:
  // BORROWS states and group, the ranks of the shards; null where a shard is the whole.
  Gatherer(const std::vector<UnitState>& states, const ParallelOptions& options,
           comm::Communicator* group);

  // A pass over the model begins (a micro-batch; a validation batch). Passes of one kind acquire
  // alike.
  void begin_pass(int kind);
  UnitWeights acquire(UnitId unit, bool backward);
  void release(UnitId unit);
  // The optimizer has changed the weights: everything gathered is stale.
  void invalidate();

  std::int64_t buffer_bytes() const;  // of slots and kept buffers

 private:
  struct Buffer {
    Tensor storage;                        // 1-D, compute dtype
    int holds = -1;                        // unit whose weights are in it (or on their way)
    bool in_use = false, awaited = false;  // awaited: prefetched, not yet acquired
    comm::Work trained_work, frozen_work;
  };

  bool aliases(const UnitState& state) const;
  bool has_own_buffer(const UnitState& state) const;
  bool needs_buffer(const UnitState& state) const { return !aliases(state); }
  Buffer& buffer_of(std::size_t unit);
  Buffer* holder_of(std::size_t unit);  // null: its weights are nowhere, nor on their way
  Buffer* free_slot();
  void fetch(std::size_t unit, Buffer& buffer);
  comm::Work fetch_bucket(const layout::BucketPlan& plan, const Tensor& shard, const Tensor& whole,
                          const std::string& unit);
  void prefetch(bool backward);

  const std::vector<UnitState>& states_;
  ParallelOptions options_;
  comm::Communicator* group_;
  std::vector<Buffer> slots_;
  std::map<std::size_t, Buffer> kept_;
  std::map<int, std::vector<std::size_t>> recorded_;  // pass kind -> units in order of acquisition
  std::vector<std::size_t>* order_ = nullptr;
  std::size_t position_ = 0;
  bool recording_ = false;
};

}  // namespace wmtp::parallel
