#include "wmtp/bench/scaling_benchmark.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>

#include "wmtp/bench/bench.h"
#include "wmtp/core/time.h"
#include "wmtp/tracking/system/procfs_text.h"

namespace wmtp::bench {
namespace {

constexpr int kFitRounds = 10, kFitCollectives = 4;
constexpr std::int64_t kSmallBytes = 4096, kLargeBytes = 1 << 20;

double slowest_rank(comm::ProcessGroupSession& group, double own) {
  double slowest = 0;
  for (const std::string& each : group.reduce_group().gather_bytes(fmt::format("{}", own)))
    slowest = std::max(slowest, std::stod(each));
  return slowest;
}

std::vector<int> own_cores() {
  cpu_set_t set{};
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

// Of the cores this rank may run on: what the kernel does for sockets is no time of the process.
double busy_s() {
  std::ifstream file("/proc/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto times = tracking::parse_cpu_times(text, own_cores());
  return times ? times->busy / static_cast<double>(::sysconf(_SC_CLK_TCK)) : 0;
}

struct CollectiveCost {
  double seconds = 0, cpu_s = 0;
};

// Several in a row, so that it does not count how far apart the ranks began; the best round, as the
// machine's other work is no part of the link. The kernel counts processor time in ticks: that is
// of all rounds.
CollectiveCost time_collective(comm::ProcessGroupSession& group,
                               const std::function<void()>& collective) {
  CollectiveCost cost{std::numeric_limits<double>::infinity(), 0};
  for (int round = 0; round < kFitRounds; ++round) {
    group.gather_group().barrier("fit");
    const double busy_begin = busy_s();
    const auto begin = Clock::now();
    for (int i = 0; i < kFitCollectives; ++i) collective();
    const double seconds = seconds_since(begin) / kFitCollectives;
    cost.cpu_s += (busy_s() - busy_begin) / (kFitCollectives * kFitRounds);
    cost.seconds = std::min(cost.seconds, slowest_rank(group, seconds));
  }
  return cost;
}

}  // namespace

// Small collectives tell starts from hops, as an all-reduce has twice the hops of a gather; what is
// left of the large ones is their bytes, half of their time at least: small ones suffer more from
// whatever else the machine does.
LinkFit fit_link(comm::ProcessGroupSession& group, std::int64_t unit_bytes) {
  const int world = group.world();
  const double others = world - 1;
  const auto gathered = [&](std::int64_t bytes) {
    const Tensor part = at::zeros({bytes / 4 / world}, at::kFloat);
    const Tensor whole = at::zeros({part.numel() * world}, at::kFloat);
    return time_collective(group, [&] { group.gather_group().all_gather(whole, part).wait(); });
  };
  const auto reduced = [&](std::int64_t bytes) {
    const Tensor whole = at::zeros({bytes / 4}, at::kFloat);
    return time_collective(group, [&] { group.reduce_group().all_reduce(whole).wait(); });
  };
  const CollectiveCost small_gather = gathered(kSmallBytes), small_reduction = reduced(kSmallBytes);
  const std::int64_t bytes = std::max(unit_bytes, kLargeBytes);
  const CollectiveCost gather = gathered(bytes), reduction = reduced(bytes);
  LinkFit fit;
  const double hops_s = std::max(0.0, small_reduction.seconds - small_gather.seconds);
  fit.link.latency_s = hops_s / others;
  fit.link.start_s = std::max(0.0, small_gather.seconds - hops_s);
  const double sent = 3 * static_cast<double>(bytes) * others / world;  // by both of them
  const double both_s = gather.seconds + reduction.seconds;
  fit.link.bytes_per_s = sent / std::max(both_s / 2, both_s - 2 * fit.link.start_s - 3 * hops_s);
  fit.cpu_s_per_byte = (gather.cpu_s + reduction.cpu_s) / sent;
  return fit;
}

MeasuredCase measure_case(comm::ProcessGroupSession& group, const ScalingCase& scaling) {
  OverlapModel model(scaling.shape, scaling.parallel, parallel::groups_of(group, scaling.parallel));
  for (int i = 0; i < 2; ++i) model.step({});  // orders are learnt, pages touched
  // The step before them leaves its first gathers under way, as the timed ones do.
  const auto seconds_of = [&](const StepParts& parts) {
    group.reduce_group().barrier("round");
    model.step(parts);
    const auto begin = Clock::now();
    for (int i = 0; i < scaling.steps; ++i) model.step(parts);
    const double own = seconds_since(begin) / scaling.steps;
    model.runtime().forget_gathered();
    return slowest_rank(group, own);
  };
  std::vector<double> compute, step;
  for (int round = 0; round < scaling.rounds; ++round) {
    compute.push_back(seconds_of({.computes = true, .gathers = false, .reduces = false}));
    step.push_back(seconds_of({}));
  }
  return {median(std::move(compute)), median(std::move(step))};
}

// Forward is one of the three products of a unit, backward the two others. The update is too short
// beside them to be told apart.
run::StepPrediction predict_case(const ScalingCase& scaling, int world, double compute_s,
                                 const run::LinkModel& link) {
  const auto placement = parallel::placement_of(scaling.parallel, 0, world);
  const double bytes = 4.0 * static_cast<double>(scaling.shape.width * scaling.shape.width);
  const double product_s = compute_s / (3.0 * (1 + scaling.shape.units));
  run::StepModel model;
  model.units.assign(static_cast<std::size_t>(1 + scaling.shape.units),
                     {.gather_bytes = bytes,
                      .reduce_bytes = bytes,
                      .forward_s = product_s,
                      .backward_s = 2 * product_s});
  model.units.front().kept = true;
  model.sharding = {world, placement.shard_world,
                    scaling.parallel.strategy == parallel::Strategy::shard_grad_op};
  model.backend = run::BackendModel::gloo();
  model.inside = link;
  model.prefetch_forward = scaling.parallel.prefetch_forward;
  model.prefetch_backward = scaling.parallel.prefetch_backward;
  return run::predict_step(model);
}

}  // namespace wmtp::bench
