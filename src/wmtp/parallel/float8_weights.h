// Trained matrices that are computed with in float8, one scale each (kernels/float8.h): from the
// masters, whichever rank keeps them, to bytes that are gathered in the place of numbers. Scales
// are of the masters themselves, over all ranks, so that any number of ranks computes with the same
// bytes. What else such a unit trains, its vectors, is too little for a gather of its own: it comes
// along with the scales of all units, in one reduction after an update.
#pragma once
#include <map>
#include <vector>

#include "wmtp/comm/communicator.h"
#include "wmtp/parallel/unit_state.h"

namespace wmtp::parallel {

// A unit that is whole.
struct UnitWeights {
  Tensor trained, frozen;  // without padding, compute dtype; undefined where the unit has none
  // Of a unit that is computed with in float8: its matrices (e4m3), and 1 / s of each (fp32,
  // each on a boundary of 16 bytes).
  // `trained` is what lies behind them.
  Tensor float8 = {}, inverse = {};
};

class Float8Weights {
 public:
  // BORROWS states and group, the ranks of the shards; null where a shard is the whole.
  Float8Weights(const std::vector<UnitState>& states, const ParallelOptions& options,
                comm::Communicator* group);

  bool has(std::size_t unit) const { return units_.contains(unit); }
  // The masters are others now: scales and vectors are to be taken again before the next use.
  void masters_changed() { current_ = false; }

  // This rank's part of the unit's trained buffer, a byte each; what is in no matrix is left as it
  // is. STREAM. COLLECTIVE: the first one after masters_changed() reduces the scales of all units.
  void quantise(std::size_t unit, const Tensor& own);

  // Of the gathered buffer.
  UnitWeights weights(std::size_t unit, const Tensor& bytes) const;

  std::int64_t bytes() const;  // of scales and vectors

 private:
  struct Unit {
    std::vector<layout::Range> matrices;  // of the trained buffer
    std::int64_t first_matrix = 0;        // among those of all units
    Tensor vectors;
    std::int64_t first_vector = 0;
  };

  void refresh();
  void take_own(const Tensor& sums_S);

  const std::vector<UnitState>& states_;
  comm::Communicator* group_;
  std::map<std::size_t, Unit> units_;
  std::int64_t num_matrices_ = 0, num_vectors_ = 0;
  DType wide_;  // of the reduction
  c10::Device device_;
  // A: matrices of all units. The inverses are the first of each four, 16 bytes apart.
  Tensor amax_A_, inverse_A4_;
  bool current_ = false;
};

// Whether its trained matrices are computed with in float8.
bool has_float8(const layout::BucketPlan& trained);

}  // namespace wmtp::parallel
