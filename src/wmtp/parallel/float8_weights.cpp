#include "wmtp/parallel/float8_weights.h"

#include <ATen/ops/amax.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/kernels/float8.h"

namespace wmtp::parallel {
namespace {

// A scale of a product lies on a boundary of 16 bytes, as its operands do.
constexpr std::int64_t kPlacesOfScale = 4;

// The matrices of a bucket end to end from its beginning, parts of one joined.
std::vector<layout::Range> float8_matrices(const layout::BucketPlan& plan) {
  std::vector<layout::Range> matrices;
  for (std::size_t p = 0; p < plan.params().size(); ++p) {
    const int matrix = plan.params()[p].float8_matrix;
    if (matrix == 0) continue;
    const layout::Range range = plan.param_range(p);
    const bool same = p > 0 && plan.params()[p - 1].float8_matrix == matrix;
    WMTP_CHECK(range.begin == (matrices.empty() ? 0 : matrices.back().end),
               "float8: a unit's matrices come first");
    if (same)
      matrices.back().end = range.end;
    else
      matrices.push_back(range);
  }
  return matrices;
}

Tensor part_of(const UnitState& state, layout::Range range) {
  return state.master.values().narrow(0, range.begin, range.size());
}

}  // namespace

bool has_float8(const layout::BucketPlan& trained) {
  return std::ranges::any_of(trained.params(), &layout::ParamSpec::float8_matrix);
}

Float8Weights::Float8Weights(const std::vector<UnitState>& states, const ParallelOptions& options,
                             comm::Communicator* group)
    : states_(states),
      group_(group),
      wide_(options.master_dtype == kFloat64 ? kFloat64 : kFloat32),
      device_(options.device) {
  for (std::size_t u = 0; u < states.size(); ++u) {
    const UnitState& state = states[u];
    if (!state.master.defined() || !has_float8(state.plan.trained)) continue;
    WMTP_CHECK(!state.has_frozen() && state.master.values().device() == device_,
               "float8: a unit is trained whole, and kept on the device");
    Unit unit{.matrices = float8_matrices(state.plan.trained),
              .first_matrix = num_matrices_,
              .vectors = {},
              .first_vector = num_vectors_};
    const std::int64_t vectors = state.plan.trained.numel() - unit.matrices.back().end;
    unit.vectors =
        at::zeros({vectors}, at::TensorOptions().dtype(state.compute_dtype).device(device_));
    num_matrices_ += static_cast<std::int64_t>(unit.matrices.size());
    num_vectors_ += vectors;
    units_.emplace(u, std::move(unit));
  }
}

// What this rank has of all scales and vectors, each in its place of the reduction: scales have one
// for every rank, since sums are all that is reduced.
void Float8Weights::take_own(const Tensor& sums_S) {
  const int rank = group_ ? group_->rank() : 0, world = group_ ? group_->world() : 1;
  const Tensor own_A = at::zeros({num_matrices_}, sums_S.options().dtype(kFloat32));
  for (const auto& [u, unit] : units_) {
    const UnitState& state = states_[u];
    const layout::Range owned = state.plan.trained.owned(rank);
    const auto in_shard = [&](layout::Range range) {
      const layout::Range mine = layout::intersect(owned, range);
      return layout::Range{mine.begin - owned.begin, mine.end - owned.begin};
    };
    for (std::size_t m = 0; m < unit.matrices.size(); ++m) {
      const layout::Range mine = in_shard(unit.matrices[m]);
      if (mine.empty()) continue;
      kernels::raise_float8_amax(
          part_of(state, mine),
          own_A.narrow(0, unit.first_matrix + static_cast<std::int64_t>(m), 1));
    }
    const std::int64_t behind = unit.matrices.back().end;
    const std::int64_t place = world * num_matrices_ + unit.first_vector - behind + owned.begin;
    const layout::Range vectors = in_shard({behind, state.plan.trained.numel()});
    if (!vectors.empty())
      sums_S.narrow(0, place + vectors.begin, vectors.size()).copy_(part_of(state, vectors));
  }
  sums_S.narrow(0, rank * num_matrices_, num_matrices_).copy_(own_A);
}

void Float8Weights::refresh() {
  const int world = group_ ? group_->world() : 1;
  const Tensor sums_S = at::zeros({world * num_matrices_ + num_vectors_},
                                  at::TensorOptions().dtype(wide_).device(device_));
  take_own(sums_S);
  if (group_) group_->all_reduce(sums_S, "float8 scales").wait();
  amax_A_ = at::amax(sums_S.narrow(0, 0, world * num_matrices_).view({world, num_matrices_}), 0)
                .to(kFloat32);
  inverse_A4_ = at::zeros({num_matrices_, kPlacesOfScale}, amax_A_.options());
  inverse_A4_.select(1, 0).copy_(kernels::float8_inverse(amax_A_));
  for (auto& [u, unit] : units_)
    kernels::round_to_compute(
        sums_S.narrow(0, world * num_matrices_ + unit.first_vector, unit.vectors.numel()),
        unit.vectors);
  current_ = true;
}

void Float8Weights::quantise(std::size_t u, const Tensor& own) {
  if (!current_) refresh();
  const Unit& unit = units_.at(u);
  const UnitState& state = states_[u];
  const layout::Range owned = state.plan.trained.owned(group_ ? group_->rank() : 0);
  for (std::size_t m = 0; m < unit.matrices.size(); ++m) {
    const layout::Range mine = layout::intersect(owned, unit.matrices[m]);
    if (mine.empty()) continue;
    const layout::Range in_shard{mine.begin - owned.begin, mine.end - owned.begin};
    kernels::quantise_part(part_of(state, in_shard),
                           amax_A_.narrow(0, unit.first_matrix + static_cast<std::int64_t>(m), 1),
                           own.narrow(0, in_shard.begin, in_shard.size()));
  }
}

UnitWeights Float8Weights::weights(std::size_t u, const Tensor& bytes) const {
  const Unit& unit = units_.at(u);
  const auto matrices = static_cast<std::int64_t>(unit.matrices.size());
  return {.trained = unit.vectors,
          .frozen = {},
          .float8 = bytes.narrow(0, 0, unit.matrices.back().end),
          .inverse = inverse_A4_.select(1, 0).narrow(0, unit.first_matrix, matrices)};
}

std::int64_t Float8Weights::bytes() const {
  std::int64_t sum = 0;
  for (const auto& [u, unit] : units_) sum += static_cast<std::int64_t>(unit.vectors.nbytes());
  return sum;
}

}  // namespace wmtp::parallel
