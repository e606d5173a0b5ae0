#include "wmtp/run/checkpoints/state_tensors.h"

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

// A stretch of a parameter that this rank writes, and where it holds it.
struct WrittenPiece {
  const layout::ParamSpec& param;
  BlocksOfParam blocks;
  layout::Range in_param, held;
};

// The pieces of a bucket of one part of a cut. The rank holds its shard of that same cut, or
// everything.
std::vector<WrittenPiece> written_pieces(const layout::BucketPlan& held, const WrittenCut& place) {
  const layout::BucketPlan cut(held.params(), place.world, held.alignment());
  const bool whole = held.shard_numel() == held.padded_numel();
  const std::int64_t offset = whole ? cut.owned(place.rank).begin : 0;
  std::vector<WrittenPiece> pieces;
  for (const layout::Piece& piece : cut.pieces(place.rank)) {
    const std::int64_t begin = offset + piece.in_shard;
    pieces.push_back({held.params()[piece.param],
                      {held.param_range(piece.param).begin},
                      piece.in_param,
                      {begin, begin + piece.in_param.size()}});
  }
  return pieces;
}

void add_weight_pieces(const layout::BucketPlan& plan, const parallel::Master& flat,
                       const WrittenCut& cut, std::vector<StatePiece>& pieces) {
  for (const WrittenPiece& one : written_pieces(plan, cut))
    pieces.push_back({checkpoint::Part::model, one.param.name, one.param.shape, one.in_param,
                      flat.narrow(one.held)});
}

void add_moment_pieces(const layout::BucketPlan& plan, const optim::ShardMoments& moments,
                       optim::Moment moment, const WrittenCut& cut,
                       std::vector<StatePiece>& pieces) {
  for (const WrittenPiece& one : written_pieces(plan, cut)) {
    const auto add = [&](std::string name, std::vector<std::int64_t> shape, layout::Range range,
                         const Tensor& values) {
      pieces.push_back({checkpoint::Part::optim, std::move(name), std::move(shape), range,
                        parallel::Master(values)});
    };
    const std::string& param = one.param.name;
    const auto kept = moments.view(moment, one.held);
    if (!kept.scales.defined()) {
      add(moment_name(param, moment), one.param.shape, one.in_param, kept.values);
      continue;
    }
    const std::int64_t num_blocks = one.blocks.touched({0, one.param.numel()}).size();
    add(codes_name(param, moment), one.param.shape, one.in_param, kept.values);
    add(scales_name(param, moment), {num_blocks}, one.blocks.touched(one.in_param), kept.scales);
  }
}

// Bytes of one moment of all of a unit's trained parameters in files.
std::int64_t moment_bytes(const std::vector<layout::ParamSpec>& trained,
                          const optim::MomentRules& rules) {
  const std::int64_t quantized = optim::num_quantized(trained, rules);
  const auto wide = static_cast<std::int64_t>(element_bytes(optim::wide_dtype(rules)));
  std::int64_t sum = 0, start = 0;
  for (const layout::ParamSpec& param : trained) {
    const std::int64_t size = param.numel();
    sum +=
        start < quantized ? size + 4 * BlocksOfParam{start}.touched({0, size}).size() : wide * size;
    start += size;
  }
  return sum;
}

}  // namespace

std::vector<StatePiece> state_pieces(training::TrainableModel& model, bool with_frozen) {
  std::vector<StatePiece> pieces;
  const WrittenCut cut = written_cut(model.runtime());
  if (cut.rank >= cut.world) return pieces;
  std::size_t trained = 0;
  for (const parallel::UnitState& state : model.runtime().states()) {
    WMTP_CHECK(!with_frozen || !state.quantized, "weights in NF4 are no part of checkpoints");
    if (state.frozen.defined() && with_frozen)
      add_weight_pieces(state.plan.frozen, parallel::Master(state.frozen), cut, pieces);
    if (!state.master.defined()) continue;
    const layout::BucketPlan& plan = state.plan.trained;
    add_weight_pieces(plan, state.master, cut, pieces);
    for (const optim::Moment moment : optim::kMoments)
      add_moment_pieces(plan, model.optimizer().moments()[trained], moment, cut, pieces);
    ++trained;
  }
  return pieces;
}

std::int64_t state_bytes(const training::AssembleOptions& options, bool with_frozen) {
  const parallel::ParallelOptions& parallel = options.parallel;
  const DType stored = parallel.frozen_dtype.value_or(parallel.param_dtype);
  std::int64_t sum = 0;
  for (const layout::UnitPlan& unit : layout::shard_plan(training::trainable_units(options), 1)) {
    const DType master = unit.full_precision ? kFloat32 : optim::master_dtype(options.adamw.recipe);
    const DType frozen = unit.full_precision ? kFloat32 : stored;
    sum += unit.trained.numel() * static_cast<std::int64_t>(element_bytes(master));
    sum += 2 * moment_bytes(unit.trained.params(),
                            {options.adamw.recipe, !unit.kept, unit.full_precision, master});
    if (with_frozen) sum += unit.frozen.numel() * static_cast<std::int64_t>(element_bytes(frozen));
  }
  return sum;
}

int num_writers(training::TrainableModel& model) {
  return written_cut(model.runtime()).world;
}

Conversions load_moments(training::TrainableModel& model, const StateReader& reader) {
  const parallel::Runtime& runtime = model.runtime();
  const int rank = runtime.placement().shard_rank();
  Conversions conversions;
  std::size_t trained = 0;
  for (const parallel::UnitState& state : runtime.states())
    if (state.master.defined())
      conversions.merge(load_shard_moments(state.plan.trained, rank,
                                           model.optimizer().moments()[trained++], reader));
  return conversions;
}

}  // namespace wmtp::run
