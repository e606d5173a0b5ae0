// `comm/*` as a rank gives them for a report.
#include "wmtp/run/report/comm_figures.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <map>

#include "support/multi_process.h"
#include "wmtp/comm/groups.h"
#include "wmtp/comm/session.h"

namespace wmtp::test {
namespace {

TEST(CommFiguresMultirank, AStepHasWhatWasMovedWithinItAndAShareOfItsTime) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2}));
  at::set_num_threads(1);
  const auto session =
      comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  comm::Communicator &gather = session->gather_group(), &reduce = session->reduce_group();
  run::CommFigures figures({&gather, &reduce});
  for (int step = 1; step <= 2; ++step) {
    reduce.all_reduce(at::zeros({1000})).wait();  // a validation, between the steps
    figures.begin_step(/*timed=*/false);
    gather.all_gather(at::zeros({2000}), at::zeros({1000})).wait();
    reduce.all_reduce(at::zeros({500 * step})).wait();
    figures.end_step();
    const training::Metrics numbers = figures.numbers();
    std::map<std::string, double> found(numbers.begin(), numbers.end());
    EXPECT_EQ(numbers.size(), 12u);
    EXPECT_EQ(found.at("comm/all_gather_mb"), 0.008);
    EXPECT_EQ(found.at("comm/all_reduce_mb"), 0.002 * step);
    EXPECT_EQ(found.at("comm/reduce_scatter_mb"), 0);
    EXPECT_GT(found.at("comm/all_gather_ms"), 0);
    EXPECT_GT(found.at("comm/wait_ms"), 0);
    EXPECT_GT(found.at("comm/wait_share"), 0);
    EXPECT_LT(found.at("comm/wait_share"), 1);
  }
  session->finish();
}

TEST(CommFigures, OneProcessWaitsForNobody) {
  const auto group = comm::make_single("solo", c10::Device(c10::kCPU));
  run::CommFigures figures({group.get(), group.get()});
  figures.begin_step(/*timed=*/true);
  group->all_reduce(at::zeros({500})).wait();
  figures.end_step();
  EXPECT_EQ(figures.numbers().size(), 12u);
  for (const auto& [name, value] : figures.numbers()) EXPECT_EQ(value, 0) << name;
}

}  // namespace
}  // namespace wmtp::test
