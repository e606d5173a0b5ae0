// How many bytes a step of each strategy moves between ranks: a law of the units' sizes.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "parallel/block_units.h"
#include "support/multi_process.h"
#include "wmtp/comm/session.h"
#include "wmtp/parallel/runtime.h"

namespace wmtp::parallel {
namespace {

using comm::CollectiveKind;
using test::kBlocks;
namespace ranks = wmtp::test;

constexpr int kUnits = kBlocks + 2;  // the root, the blocks, one that does not divide evenly

std::vector<layout::UnitSpec> uneven_units() {
  auto units = test::make_units();
  units.push_back({"odd", {{"odd.w", {300}, true}}});
  return units;
}

// Of units 0 to `last`, padded to a multiple of `padding`.
std::int64_t num_elements(int last, std::int64_t padding) {
  const auto units = uneven_units();
  std::int64_t sum = 0;
  for (int u = 0; u <= last; ++u) {
    const std::int64_t size = units[static_cast<std::size_t>(u)].params[0].shape[0];
    sum += (size + padding - 1) / padding * padding;
  }
  return sum;
}

void pass(Runtime& runtime, int unit, bool backward) {
  runtime.acquire(UnitId(unit), backward);
  if (backward) {
    runtime.open_grad(UnitId(unit)).flat.fill_(1);
    runtime.close_grad(UnitId(unit));
  }
  runtime.release(UnitId(unit));
}

// What a step moves: all groups together.
comm::CollectiveFigures step_figures(comm::ProcessGroupSession& session, Strategy strategy,
                                     int micro_batches) {
  ParallelOptions options;
  options.strategy = strategy;
  options.shard_group_size = 2;
  options.param_dtype = kBFloat16;
  const Groups groups = groups_of(session, options);
  Runtime runtime(uneven_units(), options, groups);
  runtime.fill([](const layout::ParamSpec&, std::int64_t, const Tensor& out) { out.fill_(1); });
  for (comm::Communicator* group : groups.all()) group->meter().take();
  runtime.begin_step();
  for (int m = 0; m < micro_batches; ++m) {
    runtime.begin_micro_batch(/*last=*/m + 1 == micro_batches);
    for (int u = 0; u < kUnits; ++u) pass(runtime, u, /*backward=*/false);
    for (int u = kUnits - 1; u >= 0; --u) pass(runtime, u, /*backward=*/true);
  }
  runtime.finish_grads();
  comm::CollectiveFigures figures;
  for (comm::Communicator* group : groups.all()) figures.add(group->meter().take());
  return figures;
}

TEST(TrafficMultirank, BytesOfAStepFollowFromTheStrategy) {
  if (!ranks::is_worker()) return ranks::expect_success(ranks::launch_ranks({.ranks = 2}));
  at::set_num_threads(1);
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  constexpr std::int64_t kShards = 2 * 128;  // of two ranks, 128 elements each
  const std::int64_t all = num_elements(kUnits - 1, kShards);
  const auto bytes = [](const comm::CollectiveFigures& figures, CollectiveKind kind) {
    return figures.of(kind).bytes;
  };
  // Gathered in bf16, reduced in fp32. The root is kept; when backward begins, two slots hold the
  // last unit and block 1 (a first pass, without prefetch, takes the first free slot).
  const auto full = step_figures(*session, Strategy::full_shard, 1);
  const auto unit = [](int u) { return num_elements(u, kShards) - num_elements(u - 1, kShards); };
  const std::int64_t again = all - unit(0) - unit(2) - unit(kUnits - 1);
  EXPECT_EQ(bytes(full, CollectiveKind::all_gather), (all + again) * 2);
  EXPECT_EQ(bytes(full, CollectiveKind::reduce_scatter), all * 4);
  EXPECT_EQ(bytes(full, CollectiveKind::all_reduce), 0);
  EXPECT_EQ(full.of(CollectiveKind::reduce_scatter).calls, kUnits);

  const auto grad_op = step_figures(*session, Strategy::shard_grad_op, 3);
  EXPECT_EQ(bytes(grad_op, CollectiveKind::all_gather), all * 2);  // once a step
  EXPECT_EQ(bytes(grad_op, CollectiveKind::reduce_scatter), 3 * all * 4);

  const auto replicas = step_figures(*session, Strategy::no_shard, 3);
  EXPECT_EQ(bytes(replicas, CollectiveKind::all_gather), 0);
  EXPECT_EQ(bytes(replicas, CollectiveKind::reduce_scatter), 0);
  EXPECT_EQ(bytes(replicas, CollectiveKind::all_reduce), num_elements(kUnits - 1, 128) * 4);
  session->finish();
}

// Two groups of two ranks: as FULL_SHARD on two within a group, and each shard once a step between
// the groups.
TEST(TrafficMultirank, GroupsExchangeShardsOnceAStep) {
  if (!ranks::is_worker()) return ranks::expect_success(ranks::launch_ranks({.ranks = 4}));
  at::set_num_threads(1);
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  const std::int64_t all = num_elements(kUnits - 1, 2 * 128);
  const auto hybrid = step_figures(*session, Strategy::hybrid_shard, 3);
  EXPECT_EQ(hybrid.of(CollectiveKind::reduce_scatter).bytes, 3 * all * 4);
  EXPECT_EQ(hybrid.of(CollectiveKind::reduce_scatter).calls, 3 * kUnits);
  EXPECT_EQ(hybrid.of(CollectiveKind::all_reduce).bytes, all / 2 * 4);
  EXPECT_EQ(hybrid.of(CollectiveKind::all_reduce).calls, kUnits);
  session->finish();
}

}  // namespace
}  // namespace wmtp::parallel
