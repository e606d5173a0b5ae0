// The tensors of a run's state as a checkpoint holds them: master weights, frozen weights and both
// moments, by parameter, each rank with the flat ranges it owns under FULL_SHARD, whatever the
// strategy; with HYBRID_SHARD the ranks of the first group, and the others nothing.
#pragma once
#include <string>
#include <vector>

#include "wmtp/checkpoint/format/names.h"
#include "wmtp/layout/shard_plan.h"
#include "wmtp/run/checkpoints/moment_tensors.h"
#include "wmtp/training/assemble.h"

namespace wmtp::run {

struct StatePiece {
  checkpoint::Part part = checkpoint::Part::model;
  std::string name;  // in the file: the parameter's, or a name of moment_tensors.h
  std::vector<std::int64_t> shape;
  layout::Range in_param;   // elements of that shape
  parallel::Master values;  // 1-D view of those elements, where they live: masters perhaps in
                            // planes, all else in one tensor
};

// Of this rank. `with_frozen` false: adapters and value head only (what is trained). REQUIRES
// false where weights are kept in NF4: they are quantised again from their source.
std::vector<StatePiece> state_pieces(training::TrainableModel& model, bool with_frozen);

// What all of them together take, of a model that is not there yet.
std::int64_t state_bytes(const training::AssembleOptions& options, bool with_frozen);

int num_writers(training::TrainableModel& model);  // ranks that have pieces

// Fills both moments of this rank's shards (load_shard_moments).
Conversions load_moments(training::TrainableModel& model, const StateReader& reader);

}  // namespace wmtp::run
