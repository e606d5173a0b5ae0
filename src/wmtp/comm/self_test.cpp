// Letters: W ranks, N elements.
#include "wmtp/comm/self_test.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "wmtp/core/time.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::comm {
namespace {

constexpr int kRepeats = 5;

void expect_equal(const Tensor& got, const Tensor& expected, const Communicator& group,
                  std::string_view what) {
  if (at::equal(got, expected)) return;
  const Tensor wrong = (got != expected).nonzero();
  throw Error(
      ErrorKind::comm, "comm",
      fmt::format("{} over {} is wrong on rank {}: element {} of {} is the first of {} bad ones",
                  what, group.backend(), group.rank(), wrong[0][0].item<std::int64_t>(),
                  got.numel(), wrong.size(0)),
      "the network or its driver corrupts data; try another interface or backend");
}

// Small integers, exact in every dtype: rank r holds (i mod 7) + r.
Tensor pattern_N(const Communicator& group, DType dtype, std::int64_t num_elements, int rank) {
  const auto options = c10::TensorOptions().dtype(kInt64).device(group.device());
  return (at::arange(num_elements, options).remainder(7) + rank).to(dtype);
}

int check_values(Communicator& group, DType dtype, std::int64_t num_elements) {
  const std::int64_t world = group.world();
  const Tensor mine_N = pattern_N(group, dtype, num_elements, group.rank());
  const Tensor all_WN = at::zeros({world * num_elements}, mine_N.options());
  group.all_gather(all_WN, mine_N, "self-test").wait();
  for (int r = 0; r < world; ++r)
    expect_equal(all_WN.narrow(0, r * num_elements, num_elements),
                 pattern_N(group, dtype, num_elements, r), group, "all_gather");

  const std::int64_t ranks_sum = world * (world - 1) / 2;
  const Tensor base = pattern_N(group, kInt64, num_elements * world, 0);
  const Tensor sum_WN = (base * world + ranks_sum).to(dtype);
  Tensor in_WN = pattern_N(group, dtype, num_elements * world, group.rank());
  const Tensor slice_N = at::zeros({num_elements}, in_WN.options());
  group.reduce_scatter(slice_N, in_WN, "self-test").wait();
  expect_equal(slice_N, sum_WN.narrow(0, group.rank() * num_elements, num_elements), group,
               "reduce_scatter");

  group.all_reduce(in_WN, "self-test").wait();
  expect_equal(in_WN, sum_WN, group, "all_reduce");

  const Tensor sent_N = pattern_N(group, dtype, num_elements, group.rank());
  group.broadcast(sent_N, static_cast<int>(world) - 1, "self-test").wait();
  expect_equal(sent_N, pattern_N(group, dtype, num_elements, static_cast<int>(world) - 1), group,
               "broadcast");
  return static_cast<int>(world) + 3;
}

// The best of a few runs, as the slowest rank saw it.
double time_ms(Communicator& group, const std::function<void()>& collective) {
  double best = 1e30;
  for (int i = 0; i < kRepeats; ++i) {
    group.barrier("self-test");
    const auto start = Clock::now();
    collective();
    group.barrier("self-test");
    best = std::min(best, seconds_since(start) * 1e3);
  }
  const Tensor by_rank_W =
      at::zeros({group.world()}, c10::TensorOptions().dtype(kFloat64).device(group.device()));
  by_rank_W[group.rank()] = best;
  group.all_reduce(by_rank_W, "self-test").wait();
  return by_rank_W.max().item<double>();
}

// The communicators of one set of ranks; without a gather they only sum.
struct Scope {
  std::string over;
  Communicator* gather = nullptr;
  Communicator* reduce = nullptr;
};

std::vector<Scope> scopes_of(ProcessGroupSession& session, int group_size) {
  std::vector<Scope> scopes{{"ranks", &session.gather_group(), &session.reduce_group()}};
  if (group_size <= 0) return scopes;
  const ShardGroups groups = session.shard_groups(group_size);
  if (groups.gather) scopes.push_back({"shard group", groups.gather, groups.reduce});
  if (groups.replicate) scopes.push_back({"replicas", nullptr, groups.replicate});
  return scopes;
}

void time_scope(const Scope& scope, std::int64_t bytes, std::vector<CollectiveTiming>& timings) {
  Communicator& reduce = *scope.reduce;
  const std::int64_t part = std::max<std::int64_t>(1, bytes / 4 / reduce.world());
  const Tensor part_N =
      at::zeros({part}, c10::TensorOptions().dtype(kFloat32).device(reduce.device()));
  const Tensor whole_WN = at::zeros({part * reduce.world()}, part_N.options());
  auto time = [&](std::string collective, Communicator& group, const std::function<void()>& run) {
    const double ms = time_ms(group, run);
    const auto size = static_cast<std::int64_t>(whole_WN.nbytes());
    timings.push_back({std::move(collective), scope.over,
                       std::string(wmtp::name_of(whole_WN.scalar_type())), size, ms,
                       static_cast<double>(size) / (ms * 1e6)});
  };
  if (Communicator* gather = scope.gather) {
    time("all_gather", *gather, [&] { gather->all_gather(whole_WN, part_N).wait(); });
    time("reduce_scatter", reduce, [&] { reduce.reduce_scatter(part_N, whole_WN).wait(); });
  }
  time("all_reduce", reduce, [&] { reduce.all_reduce(whole_WN).wait(); });
}

}  // namespace

SelfTestResult run_collective_self_test(ProcessGroupSession& session, std::int64_t max_bytes,
                                        int group_size) {
  SelfTestResult result{session.backend(), session.where(), session.world(), 0, {}};
  const std::vector<Scope> scopes = scopes_of(session, group_size);
  std::vector<Communicator*> groups;
  for (const Scope& scope : scopes)
    for (Communicator* group : {scope.gather, scope.reduce})
      if (group && std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  for (Communicator* group : groups)
    for (const DType dtype : {kFloat32, kBFloat16, kFloat64, kInt64})
      for (const std::int64_t num_elements : {1, 1001})
        result.num_checks += check_values(*group, dtype, num_elements);

  for (std::int64_t bytes = std::min<std::int64_t>(max_bytes, 64 << 10); bytes <= max_bytes;
       bytes *= 16) {
    for (const Scope& scope : scopes) time_scope(scope, bytes, result.timings);
  }
  return result;
}

std::vector<std::string> SelfTestResult::lines() const {
  std::vector<std::string> text{fmt::format("{} ranks over {}, {}", world, backend, where),
                                fmt::format("{} results compared, all exact", num_checks)};
  for (const CollectiveTiming& row : timings)
    text.push_back(fmt::format("{:<15} {} {:>9.3f} MB {:>9.3f} ms {:>8.3f} GB/s", row.collective,
                               row.dtype, static_cast<double>(row.bytes) / 1e6, row.best_ms,
                               row.gb_per_s));
  return text;
}

}  // namespace wmtp::comm
