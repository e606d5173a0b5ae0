// Whole units of weights when they are needed. A unit is gathered into a persistent slot, the next
// ones while this one computes: the order of a pass is recorded the first time and prefetched from
// then on. Under SHARD_GRAD_OP every unit has a buffer of its own and is gathered once a step,
// ahead of its use all the same; only where frozen weights are converted (or dequantised) on the
// way does a unit share the slots. Units marked `kept` always have their own buffer and stand at
// both ends of a pass: they are not prefetched within it. What a step acquires first is gathered
// behind the update of the step before. Matrices that are computed with in float8 are made of the
// masters each time (float8_weights.h), and travel in bytes. THREADS: one. COLLECTIVE: all ranks
// acquire, and update, the same units in the same order.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "wmtp/comm/communicator.h"
#include "wmtp/core/strong_ids.h"
#include "wmtp/parallel/float8_weights.h"
#include "wmtp/parallel/pending_updates.h"
#include "wmtp/parallel/unit_state.h"

namespace wmtp::parallel {

class Gatherer {
 public:
  // BORROWS states, updates and group, the ranks of the shards; null where a shard is the whole.
  Gatherer(const std::vector<UnitState>& states, const ParallelOptions& options,
           PendingUpdates& updates, comm::Communicator* group);

  // A pass over the model begins (a micro-batch: kind 0; a validation batch). Passes of one kind
  // acquire alike.
  void begin_pass(int kind);
  UnitWeights acquire(UnitId unit, bool backward);
  void release(UnitId unit);
  // The weights change: everything gathered is stale, and nothing reads or writes them any more.
  // BLOCKS (CPU) for gathers under way.
  void invalidate();
  // invalidate(), before the optimizer changes the weights unit by unit; updated() follows for each
  // unit that has trained ones. What the next micro-batch acquires first (the kept units, and as
  // many more as are prefetched in forward) is gathered as soon as its own update is enqueued; in
  // float8 when all are, for scales are reduced once.
  void begin_update();
  void updated(UnitId unit);

  std::int64_t buffer_bytes() const;  // of slots and kept buffers

 private:
  struct Buffer {
    Tensor storage;                        // 1-D, compute dtype
    int holds = -1;                        // unit whose weights are in it (or on their way)
    bool in_use = false, awaited = false;  // awaited: fetched ahead, not yet acquired
    comm::Work trained_work, frozen_work;
    SideStream::Mark fetched;  // from the host (cpu_offload)
  };

  struct Kept {
    const layout::BucketPlan& plan;
    const Tensor& shard;  // undefined: not in values
  };

  static bool is_sharded(const layout::BucketPlan& plan);
  bool gathers_frozen(const UnitState& state) const;
  std::int64_t buffer_numel(const UnitState& state) const;
  bool aliases(std::size_t unit) const;
  bool has_own_buffer(const UnitState& state) const;
  Buffer& buffer_of(std::size_t unit);
  Buffer* holder_of(std::size_t unit);  // null: its weights are nowhere, nor on their way
  Buffer* free_slot();
  static void wait_for(Buffer& buffer);
  static void drop(Buffer& buffer);
  Tensor bytes_of(std::size_t unit, const Buffer& buffer) const;
  void fetch(std::size_t unit, Buffer& buffer);
  void fill(std::size_t unit, Buffer& buffer);
  void fetch_early(std::size_t unit);
  // `make` writes the rank's own part of `whole` where its shard cannot be sent as it is.
  comm::Work gather(const UnitState& state, const Kept& kept, const Tensor& whole,
                    const std::function<void(const Tensor& own)>& make);
  void prefetch(bool backward);

  const std::vector<UnitState>& states_;
  ParallelOptions options_;
  PendingUpdates& pending_;
  comm::Communicator* group_;
  SideStream copies_;  // from the host
  std::vector<Buffer> slots_;
  std::map<std::size_t, Buffer> kept_;
  std::map<int, std::vector<std::size_t>> recorded_;  // pass kind -> units in order of acquisition
  std::vector<std::size_t>* order_ = nullptr;
  std::set<std::size_t> early_;  // units to be fetched once they are updated
  Float8Weights float8_;
  std::size_t updates_to_come_ = 0;
  std::size_t position_ = 0;
  bool recording_ = false;
};

}  // namespace wmtp::parallel
