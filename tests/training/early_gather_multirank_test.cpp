// The first gathers of a step run behind the update of the step before: no number changes by it,
// whatever comes between two steps, and a run may end while they are under way.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "support/multi_process.h"
#include "support/runs/law_run.h"
#include "wmtp/comm/session.h"
#include "wmtp/core/failpoint.h"

namespace wmtp::test {
namespace {

constexpr int kEarlySteps = 4;

// A validation that goes through the units backwards.
void validate(LawRun& run) {
  parallel::Runtime& runtime = run.model().runtime();
  runtime.begin_evaluation();
  for (auto unit = static_cast<int>(run.num_units()) - 1; unit >= 0; --unit) {
    runtime.acquire(UnitId(unit), /*backward=*/false);
    runtime.release(UnitId(unit));
  }
}

// Masters after the steps; the second is spoiled and updates nothing.
std::vector<Tensor> trained(LawLayout layout, int prefetch, const parallel::Groups& groups) {
  layout.prefetch = prefetch;
  failpoint::configure(
      {.spec = "step.grad_norm:nth=2=damage", .rank = worker_rank(), .log_path = {}});
  LawRun run(model::preset("micro"), layout, groups);
  for (int step = 0; step < kEarlySteps; ++step) {
    EXPECT_EQ(run.step().applied, step != 1);
    const comm::LastCollective last = groups.gather->log()->last();
    if (layout.strategy != parallel::Strategy::no_shard) {
      EXPECT_EQ(last.finished, prefetch == 0) << last.what;
    }
    if (prefetch > 0 && step % 2 == 0) validate(run);
  }
  failpoint::configure({});
  return masters(run);  // the last step's gathers are under way when the run goes
}

TEST(EarlyGatherMultirank, NoNumberChanges) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2, .timeout_s = 300}));
  at::set_num_threads(1);
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  const parallel::Groups groups{&session->gather_group(), &session->reduce_group()};
  for (const auto strategy : {parallel::Strategy::full_shard, parallel::Strategy::shard_grad_op,
                              parallel::Strategy::no_shard})
    for (const bool adapters : {false, true}) {
      LawLayout layout{.strategy = strategy, .num_micro_batches = 4};
      if (adapters) layout.lora = model::LoraConfig{};
      const auto plain = trained(layout, 0, groups);
      for (const int prefetch : {1, 3})
        EXPECT_TRUE(equal(plain, trained(layout, prefetch, groups)))
            << name_of(strategy) << " prefetch " << prefetch << " adapters " << adapters;
    }
  session->check_order();
  session->finish();
}

}  // namespace
}  // namespace wmtp::test
