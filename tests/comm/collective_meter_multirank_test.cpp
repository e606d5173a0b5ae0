// What a communicator counts of its collectives: bytes as the shapes say, and the time that its
// caller was kept waiting.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <thread>

#include "support/multi_process.h"
#include "wmtp/comm/groups.h"
#include "wmtp/comm/session.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::test {
namespace {

using comm::CollectiveFigures;
using comm::CollectiveKind;
using comm::Communicator;

std::unique_ptr<comm::ProcessGroupSession> connected_worker() {
  comm::SessionOptions options;
  options.rendezvous.timeout = std::chrono::seconds(30);
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()),
                                                  std::move(options));
  session->connect();
  return session;
}

void run_each_kind(Communicator& group) {
  const Tensor part = at::full({100}, 1.f);
  const Tensor whole = at::zeros({100 * group.world()});
  group.all_gather(whole, part).wait();
  group.all_gather(whole.to(kBFloat16), part.to(kBFloat16)).wait();
  group.reduce_scatter(part, whole).wait();
  group.all_reduce(part).wait();
  group.broadcast(part, 0).wait();
  group.gather_bytes("12345678", 0);  // an all-gather of sizes, a gather
  group.barrier();
  group.all_reduce(at::zeros({0})).wait();  // no message
}

TEST(CollectiveMeterMultirank, BytesAreThoseOfTheWhole) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2}));
  auto session = connected_worker();
  Communicator& group = session->reduce_group();
  group.meter().take();
  run_each_kind(group);
  const CollectiveFigures figures = group.meter().take();
  const auto expect = [&](CollectiveKind kind, std::int64_t calls, std::int64_t bytes) {
    EXPECT_EQ(figures.of(kind).calls, calls) << name_of(kind);
    EXPECT_EQ(figures.of(kind).bytes, bytes) << name_of(kind);
    EXPECT_GT(figures.of(kind).duration_s, 0) << name_of(kind);
  };
  expect(CollectiveKind::all_gather, 3, 2 * 100 * 4 + 2 * 100 * 2 + 2 * 8);
  expect(CollectiveKind::reduce_scatter, 1, 2 * 100 * 4);
  expect(CollectiveKind::all_reduce, 1, 100 * 4);
  expect(CollectiveKind::broadcast, 1, 100 * 4);
  expect(CollectiveKind::other, 2, 2 * 8);
  EXPECT_TRUE(figures.open.empty());
  EXPECT_EQ(group.meter().take().of(CollectiveKind::all_gather).calls, 0);  // since the last take
  session->finish();
}

// The clock is that of the machine: what one rank reads of it means the same to the other.
TEST(CollectiveMeterMultirank, APunctualRankWaitsForALateOne) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2}));
  auto session = connected_worker();
  Communicator& group = session->reduce_group();
  const Tensor late_at = at::zeros({1}, kInt64);
  if (session->rank() == 1) {
    session->store().get("waits", std::chrono::seconds(30));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    late_at.fill_(Clock::now().time_since_epoch().count());
  }
  group.meter().take();
  comm::Work work = group.all_reduce(late_at);
  if (session->rank() == 0) session->store().set("waits", "1");
  const auto waits_from = Clock::now();
  work.wait();
  work.wait();  // counts once
  const CollectiveFigures figures = group.meter().take();
  if (session->rank() == 0) {
    const Clock::time_point came{Clock::duration(late_at.item<std::int64_t>())};
    const double late_s = std::chrono::duration<double>(came - waits_from).count();
    // Half of it: between our look at the clock and the meter's, others may have had the processor.
    EXPECT_GE(figures.of(CollectiveKind::all_reduce).waited_s, late_s / 2);
    EXPECT_GE(figures.of(CollectiveKind::all_reduce).duration_s, late_s);
    EXPECT_EQ(figures.waited_s(), figures.of(CollectiveKind::all_reduce).waited_s);
  }
  session->finish();
}

TEST(CollectiveMeterMultirank, ACollectiveLastsUntilItsResultIsThere) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2}));
  auto session = connected_worker();
  Communicator& group = session->reduce_group();
  const Tensor sum = at::zeros({1000});
  group.meter().take();
  const auto begun = Clock::now();
  comm::Work work = group.all_reduce(sum);
  while (!work.done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const double done_s = seconds_since(begun);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  work.wait();
  const auto sums = group.meter().take().of(CollectiveKind::all_reduce);
  EXPECT_GT(sums.duration_s, 0);
  EXPECT_LE(sums.duration_s, done_s);
  EXPECT_LE(sums.waited_s, seconds_since(begun) - done_s - 0.05);
  session->finish();
}

TEST(CollectiveMeter, AGroupOfOneProcessMovesNothing) {
  const auto group = comm::make_single("solo", c10::Device(c10::kCPU));
  run_each_kind(*group);
  const CollectiveFigures figures = group->meter().take();
  for (const comm::CollectiveSums& kind : figures.kinds) {
    EXPECT_EQ(kind.calls, 0);
    EXPECT_EQ(kind.bytes, 0);
    EXPECT_EQ(kind.duration_s, 0);
  }
  EXPECT_EQ(figures.waited_s(), 0);
}

}  // namespace
}  // namespace wmtp::test
