// Letters: W ranks, N elements, R rounds.
#include "wmtp/cli/doctor/cluster_measure.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "wmtp/core/time.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::cli {
namespace {

constexpr std::array<std::int64_t, 6> kSizes{8, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
constexpr int kMostRepeats = 20;
constexpr double kSeconds = 0.2;   // for the repeats of one size
constexpr double kAllSeconds = 4;  // no larger size is begun after that
constexpr int kMostRounds = 32;    // of pairs
constexpr std::int64_t kPairBytes = 4 << 20;
constexpr int kPings = 8, kLargePings = 3;
constexpr const char* kLabel = "cluster";

c10::TensorOptions on_device(const comm::Communicator& group, DType dtype) {
  return c10::TensorOptions().dtype(dtype).device(group.device());
}

// For the host: on a GPU what was waited for has only been enqueued.
void settle(const Tensor& tensor) {
  (void)tensor.select(0, 0).item();
}

double largest_of_ranks(comm::Communicator& group, double mine) {
  const Tensor by_rank_W = at::zeros({group.world()}, on_device(group, kFloat64));
  by_rank_W[group.rank()] = mine;
  group.all_reduce(by_rank_W, kLabel).wait();
  return by_rank_W.max().item<double>();
}

double seconds_of(comm::Communicator& group, const Tensor& result,
                  const std::function<comm::Work()>& start) {
  group.barrier(kLabel);
  const auto begun = Clock::now();
  start().wait();
  settle(result);
  return seconds_since(begun);
}

double best_ms(comm::Communicator& group, const Tensor& result,
               const std::function<comm::Work()>& start) {
  seconds_of(group, result, start);  // connections and buffers are made in the first one
  double best = seconds_of(group, result, start);
  const double slowest = std::max(largest_of_ranks(group, best), 1e-9);
  const int repeats = std::clamp(static_cast<int>(kSeconds / slowest), 1, kMostRepeats);
  for (int i = 0; i < repeats; ++i) best = std::min(best, seconds_of(group, result, start));
  return largest_of_ranks(group, best) * 1e3;
}

// There and back, `count` times after a first one: what the best took, on the rank that begins.
double best_round_trip_s(comm::Communicator& group, const Tensor& tensor, int other, int count) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= count; ++i) {
    const auto begun = Clock::now();
    if (group.rank() < other) group.send(tensor, other, kLabel).wait();
    group.recv(tensor, other, kLabel).wait();
    settle(tensor);
    if (group.rank() > other) group.send(tensor, other, kLabel).wait();
    if (i > 0) best = std::min(best, seconds_since(begun));
  }
  return best;
}

}  // namespace

std::vector<CollectiveSpeed> time_collectives(comm::Communicator& group) {
  std::vector<CollectiveSpeed> found;
  if (group.world() == 1) return found;
  const auto begun = Clock::now();
  for (const std::int64_t bytes : kSizes) {
    if (largest_of_ranks(group, seconds_since(begun)) > kAllSeconds) break;
    const Tensor whole_N = at::zeros({bytes / 4}, on_device(group, kFloat32));
    found.push_back({"all_reduce", bytes,
                     best_ms(group, whole_N, [&] { return group.all_reduce(whole_N, kLabel); })});
    const std::int64_t part = std::max<std::int64_t>(1, bytes / 4 / group.world());
    const Tensor part_N = at::zeros({part}, whole_N.options());
    const Tensor all_WN = at::zeros({part * group.world()}, whole_N.options());
    found.push_back({"all_gather", part * 4 * group.world(), best_ms(group, all_WN, [&] {
                       return group.all_gather(all_WN, part_N, kLabel);
                     })});
  }
  return found;
}

std::vector<ClockSkew> compare_clocks(comm::Communicator& group,
                                      const std::function<double()>& clock) {
  std::vector<ClockSkew> found;
  const Tensor time_1 = at::zeros({1}, on_device(group, kFloat64));
  for (int rank = 1; rank < group.world(); ++rank) {
    ClockSkew skew{rank, 0, std::numeric_limits<double>::infinity()};
    for (int i = 0; i <= kPings && (group.rank() == 0 || group.rank() == rank); ++i) {
      if (group.rank() == rank) {
        group.recv(time_1, 0, kLabel).wait();
        settle(time_1);
        time_1.fill_(clock());
        group.send(time_1, 0, kLabel).wait();
        continue;
      }
      const double asked_s = clock();
      group.send(time_1, rank, kLabel).wait();
      group.recv(time_1, rank, kLabel).wait();
      const double answer_s = time_1.item<double>();
      const double half_s = (clock() - asked_s) / 2;
      if (half_s < skew.bound_s) skew = {rank, answer_s - (asked_s + half_s), half_s};
    }
    if (group.rank() == 0) found.push_back(skew);
  }
  group.barrier(kLabel);
  return found;
}

// The circle method: one rank stays, the others go round. An odd world has a seat that stays empty.
int num_rounds(int world) {
  return world < 2 ? 0 : world + world % 2 - 1;
}

int partner(int rank, int round, int world) {
  const int rounds = num_rounds(world);
  const int last = rounds;
  int other = (2 * round - rank + 2 * rounds) % rounds;
  if (rank == last) other = round;
  if (rank != last && other == rank) other = last;
  return other < world ? other : -1;
}

std::vector<PairSpeed> time_pairs(comm::Communicator& group) {
  const int world = group.world(), all_rounds = num_rounds(world);
  const int rounds = std::min(all_rounds, kMostRounds);
  if (rounds == 0) return {};
  const double none = std::numeric_limits<double>::quiet_NaN();
  const Tensor small_N = at::zeros({2}, on_device(group, kFloat32));
  const Tensor large_N = at::zeros({kPairBytes / 4}, small_N.options());
  // Two numbers a round: those that a rank has begun.
  const Tensor mine_R2 = at::full({rounds, 2}, none, c10::TensorOptions().dtype(kFloat64));
  const auto round_of = [&](int i) {
    return static_cast<int>(std::int64_t{i} * all_rounds / rounds);
  };
  for (int i = 0; i < rounds; ++i) {
    group.barrier(kLabel);
    const int other = partner(group.rank(), round_of(i), world);
    if (other < 0) continue;
    const double small_s = best_round_trip_s(group, small_N, other, kPings);
    const double large_s = best_round_trip_s(group, large_N, other, kLargePings);
    if (group.rank() > other) continue;
    mine_R2[i][0] = small_s / 2 * 1e3;
    mine_R2[i][1] = kPairBytes / (large_s / 2 * 1e9);
  }
  const Tensor all_WR2 = at::zeros({world, rounds, 2}, on_device(group, kFloat64));
  group.all_gather(all_WR2, mine_R2.to(group.device()), kLabel).wait();
  const Tensor host_WR2 = all_WR2.cpu();
  const double* numbers = host_WR2.const_data_ptr<double>();
  std::vector<PairSpeed> found;
  for (int rank = 0; rank < world; ++rank)
    for (int i = 0; i < rounds; ++i) {
      const double* pair = numbers + (std::int64_t{rank} * rounds + i) * 2;
      if (!std::isnan(pair[0]))
        found.push_back({rank, partner(rank, round_of(i), world), pair[0], pair[1]});
    }
  return found;
}

}  // namespace wmtp::cli
