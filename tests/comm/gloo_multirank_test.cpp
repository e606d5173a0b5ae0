#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <thread>

#include "comm/conformance.h"
#include "support/expect_error.h"
#include "support/multi_process.h"
#include "wmtp/comm/groups.h"
#include "wmtp/comm/self_test.h"
#include "wmtp/comm/session.h"
#include "wmtp/core/time.h"
#include "wmtp/tensor/dtype.h"

namespace wmtp::test {
namespace {

using comm::ProcessGroupSession;

std::unique_ptr<ProcessGroupSession> start_worker(comm::SessionOptions options = {}) {
  options.rendezvous.timeout = std::chrono::seconds(30);
  return ProcessGroupSession::start(comm::discover(comm::process_environment()),
                                    std::move(options));
}

void conform() {
  auto session = start_worker();
  session->connect();
  check_conformance(session->gather_group());
  check_conformance(session->reduce_group());
  session->finish();
}

TEST(GlooMultirank, OneRankConforms) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 1}));
  const auto group = comm::make_gloo({.name = "solo", .store = comm::Store::in_process()});
  check_conformance(*group);
}
TEST(GlooMultirank, TwoRanksConform) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2}));
  conform();
}
TEST(GlooMultirank, ThreeRanksConform) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 3}));
  conform();
}
TEST(GlooMultirank, FourRanksConform) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 4}));
  conform();
}

// A collective that cannot end in one group must not hold up the other.
TEST(GlooMultirank, GroupsDoNotQueueBehindEachOther) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2}));
  auto session = start_worker();
  session->connect();
  const Tensor a = at::full({1000}, 1.f), b = at::full({1000}, 2.f);
  comm::Work held;
  if (session->rank() == 0) held = session->gather_group().all_reduce(a, "held");
  session->reduce_group().all_reduce(b, "free").wait();
  EXPECT_EQ(b[0].item<float>(), 4.f);
  if (session->rank() == 0) {
    EXPECT_FALSE(held.done());
  }
  session->reduce_group().barrier();
  if (session->rank() == 1) held = session->gather_group().all_reduce(a, "held");
  held.wait();
  EXPECT_EQ(a[0].item<float>(), 2.f);
  session->finish();
}

TEST(GlooMultirank, TimeoutIsAnError) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2}));
  auto session = start_worker();
  const comm::GroupSpec spec{.name = "short",
                             .rank = session->rank(),
                             .world = session->world(),
                             .store = session->store(),
                             .timeout = std::chrono::milliseconds(500)};
  const auto group = comm::make_gloo(spec);
  comm::verify_group(*group);
  if (session->rank() == 0) {
    const auto start = Clock::now();
    EXPECT_WMTP_ERROR(group->all_reduce(at::zeros({4})).wait(), ErrorKind::comm,
                      "all_reduce in group 'short'");
    EXPECT_LT(seconds_since(start), 5);
    EXPECT_GT(seconds_since(start), 0.3);
    session->store().set("timed out", "1");
  }
  session->store().get("timed out", std::chrono::seconds(20));
  group->abort();
  session->finish();
}

TEST(GlooMultirank, AbortWakesABlockedWait) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2}));
  auto session = start_worker();
  session->connect();
  if (session->rank() == 0) {
    std::thread aborter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      session->gather_group().abort();
    });
    const auto start = Clock::now();
    EXPECT_WMTP_ERROR(session->gather_group().all_reduce(at::zeros({4})).wait(), ErrorKind::comm,
                      "aborted");
    EXPECT_LT(seconds_since(start), 1);
    aborter.join();
    EXPECT_WMTP_ERROR(session->gather_group().all_reduce(at::zeros({4})), ErrorKind::comm,
                      "aborted");
    session->store().set("aborted", "1");
  }
  session->store().get("aborted", std::chrono::seconds(20));
}

TEST(GlooMultirank, EqualOrderPasses) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 3}));
  auto session = start_worker();
  session->connect();
  session->gather_group().all_reduce(at::zeros({4}), "unit 1").wait();
  session->check_order();
  EXPECT_TRUE(session->gather_group().log()->recorded().empty());
  session->finish();
}

// Two collectives of one size swapped on rank 1: nothing hangs, so only the comparison can see it.
TEST(GlooMultirank, SwappedOrderIsNamed) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 3}));
  auto session = start_worker();
  session->connect();
  const bool odd = session->rank() == 1;
  session->gather_group().all_reduce(at::zeros({4}), odd ? "unit 2" : "unit 1").wait();
  session->gather_group().all_reduce(at::zeros({4}), odd ? "unit 1" : "unit 2").wait();
  EXPECT_WMTP_ERROR(
      session->check_order(), ErrorKind::config,
      "rank 1: collective 00002 of group gather all_reduce 4 fp32 unit 2, others all_reduce 4 "
      "fp32 unit 1");
  session->finish();
}

TEST(GlooMultirank, SelfTestGivesNumbers) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2}));
  auto session = start_worker();
  session->connect();
  const comm::SelfTestResult result = comm::run_collective_self_test(*session, 1 << 20);
  EXPECT_EQ(result.num_checks, 2 * 4 * 2 * 5);
  ASSERT_EQ(result.timings.size(), 6u);
  for (const auto& timing : result.timings) EXPECT_GT(timing.gb_per_s, 0);
  EXPECT_EQ(result.lines().size(), 8u);
  session->finish();
}

}  // namespace
}  // namespace wmtp::test
