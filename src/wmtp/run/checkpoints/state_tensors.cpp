#include "wmtp/run/checkpoints/state_tensors.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "wmtp/core/error.h"

namespace wmtp::run {
namespace {

// How the state is cut for files: the ranks from `world` on write nothing.
struct WrittenCut {
  int rank = 0, world = 1;
};

// The first group of HYBRID_SHARD writes its own shards; with the other strategies everybody
// writes, also of what all have.
WrittenCut written_cut(const parallel::Runtime& runtime) {
  const parallel::Placement& place = runtime.placement();
  const bool hybrid = runtime.options().strategy == parallel::Strategy::hybrid_shard;
  return {place.rank, hybrid ? place.shard_world : place.world};
}

// The pieces of a bucket of one part of a cut, found in `flat`, which holds the rank's
// shard of that same cut, or everything.
void add_pieces(const layout::BucketPlan& held, const Tensor& flat, const WrittenCut& place,
                checkpoint::Part part,
                const std::function<std::string(const std::string&)>& name_of,
                std::vector<StatePiece>& pieces) {
  const layout::BucketPlan cut(held.params(), place.world);
  const bool whole = held.shard_numel() == held.padded_numel();
  const std::int64_t offset = whole ? cut.owned(place.rank).begin : 0;
  for (const layout::Piece& piece : cut.pieces(place.rank)) {
    const layout::ParamSpec& param = cut.params()[piece.param];
    pieces.push_back({part, name_of(param.name), param.shape, piece.in_param,
                      flat.narrow(0, offset + piece.in_shard, piece.in_param.size())});
  }
}

void load_bucket(const layout::BucketPlan& plan, int rank, const Tensor& flat,
                 const ReadState& read, bool second) {
  for (const layout::Piece& piece : plan.pieces(rank)) {
    const Tensor target = flat.narrow(0, piece.in_shard, piece.in_param.size());
    const Tensor host =
        at::empty({piece.in_param.size()}, at::TensorOptions().dtype(target.scalar_type()));
    read(moment_name(plan.params()[piece.param].name, second), piece.in_param.begin, host);
    target.copy_(host);
  }
}

}  // namespace

std::string moment_name(const std::string& parameter, bool second) {
  return fmt::format("optim.state.{}.{}", parameter, second ? "exp_avg_sq" : "exp_avg");
}

std::vector<StatePiece> state_pieces(training::TrainableModel& model, bool with_frozen) {
  std::vector<StatePiece> pieces;
  const WrittenCut cut = written_cut(model.runtime());
  if (cut.rank >= cut.world) return pieces;
  auto same = [](const std::string& name) { return name; };
  std::size_t trained = 0;
  for (const parallel::UnitState& state : model.runtime().states()) {
    WMTP_CHECK(!with_frozen || !state.quantized, "weights in NF4 are no part of checkpoints");
    if (state.frozen.defined() && with_frozen)
      add_pieces(state.plan.frozen, state.frozen, cut, checkpoint::Part::model, same, pieces);
    if (!state.master.defined()) continue;
    const layout::BucketPlan& plan = state.plan.trained;
    add_pieces(plan, state.master, cut, checkpoint::Part::model, same, pieces);
    for (const bool second : {false, true}) {
      const auto& moments = second ? model.optimizer().exp_avg_sq() : model.optimizer().exp_avg();
      add_pieces(
          plan, moments[trained], cut, checkpoint::Part::optim,
          [second](const std::string& name) { return moment_name(name, second); }, pieces);
    }
    ++trained;
  }
  return pieces;
}

std::int64_t state_bytes(const training::AssembleOptions& options, bool with_frozen) {
  const parallel::ParallelOptions& parallel = options.parallel;
  const auto master =
      static_cast<std::int64_t>(element_bytes(optim::master_dtype(options.adamw.recipe)));
  const auto frozen = static_cast<std::int64_t>(
      element_bytes(parallel.frozen_dtype.value_or(parallel.param_dtype)));
  std::int64_t sum = 0;
  for (const layout::UnitSpec& unit : training::trainable_units(options))
    for (const layout::ParamSpec& param : unit.params) {
      const std::int64_t trained = 3 * (unit.full_precision ? 4 : master);
      const std::int64_t kept = with_frozen ? (unit.full_precision ? 4 : frozen) : 0;
      sum += param.numel() * (param.trained ? trained : kept);
    }
  return sum;
}

int num_writers(training::TrainableModel& model) {
  return written_cut(model.runtime()).world;
}

void load_moments(training::TrainableModel& model, const ReadState& read) {
  const parallel::Runtime& runtime = model.runtime();
  const int rank = runtime.placement().shard_rank();
  std::size_t trained = 0;
  for (const parallel::UnitState& state : runtime.states()) {
    if (!state.master.defined()) continue;
    load_bucket(state.plan.trained, rank, model.optimizer().exp_avg()[trained], read, false);
    load_bucket(state.plan.trained, rank, model.optimizer().exp_avg_sq()[trained], read, true);
    ++trained;
  }
}

}  // namespace wmtp::run
