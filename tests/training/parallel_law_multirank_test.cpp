// N ranks == 1 rank: gradients, parameters and loss, for every strategy, recompute level and number
// of micro-batches.
#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "support/multi_process.h"
#include "support/soak.h"
#include "support/tolerance.h"
#include "training/law_bounds.h"
#include "training/law_layouts.h"
#include "wmtp/comm/groups.h"
#include "wmtp/comm/session.h"
#include "wmtp/core/failpoint.h"

namespace wmtp::test {
namespace {

constexpr int kLawSteps = 5;

// The run of a single process with the same samples: what every layout must reproduce, and how
// nearly.
struct Expected {
  LawTrace trace;
  LawBounds bounds;
};

Expected run_alone(const model::ModelConfig& config, LawLayout layout) {
  const auto gather = comm::make_single("gather", c10::Device(c10::kCPU));
  const auto reduce = comm::make_single("reduce", c10::Device(c10::kCPU));
  layout.strategy = parallel::Strategy::no_shard;
  layout.recompute = model::Recompute::none;
  LawRun run(config, layout, {gather.get(), reduce.get()});
  LawTrace trace;
  for (int step = 0; step < kLawSteps; ++step) {
    LawTrace::Step& now = trace.steps.emplace_back();
    now.weights = masters(run);
    const training::StepResult result = run.step();
    now.loss = result.loss, now.num_tokens = result.num_tokens;
    for (std::size_t u = 0; u < run.num_units(); ++u)
      now.grads.push_back(run.grad(u).values.clone());
  }
  trace.end = masters(run);
  return {trace, law_bounds(trace, layout.recipe, kLawLearningRate)};
}

// Norm of (mine - theirs) over all ranks' parts.
double distance(comm::Communicator& group, const LawRun::Part& mine, const Tensor& whole,
                bool counts) {
  const Tensor theirs = whole.narrow(0, mine.begin, mine.values.numel());
  const double local =
      counts ? mine.values.to(at::kDouble).sub(theirs).pow(2).sum().item<double>() : 0;
  const Tensor sum = at::tensor({local}, at::kDouble);
  group.all_reduce(sum).wait();
  return std::sqrt(sum.item<double>());
}

Tensor copy_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.clone() : Tensor();
}

void check_layout(const NamedLayout& one, const model::ModelConfig& config,
                  const parallel::Groups& groups, const Expected& expected) {
  SCOPED_TRACE(fmt::format("{}, seed {}", one.name, one.layout.seed));
  const auto& [trace, bounds] = expected;
  LawRun run(config, one.layout, groups);
  std::optional<LawRun> again;
  if (one.rerun) again.emplace(config, one.layout, groups);
  const bool counts = run.model().runtime().counts_once();
  std::vector<Tensor> frozen;
  for (std::size_t u = 0; u < run.num_units(); ++u) frozen.push_back(copy_of(run.frozen(u)));
  for (std::size_t step = 0; step < trace.steps.size(); ++step) {
    const auto result = run.step();
    EXPECT_TRUE(result.applied);
    EXPECT_WITHIN(std::abs(result.loss - trace.steps[step].loss), bounds.losses[step])
        << "loss of step " << step;
    if (again) again->step();
    for (std::size_t u = 0; step == 0 && u < run.num_units(); ++u)
      EXPECT_WITHIN(distance(*groups.reduce, run.grad(u), trace.steps[0].grads[u], counts),
                    bounds.first_grads[u])
          << "gradient of unit " << u;
  }
  for (std::size_t u = 0; u < run.num_units(); ++u) {
    EXPECT_WITHIN(distance(*groups.reduce, run.master(u), trace.end[u], counts), bounds.weights[u])
        << "weights of unit " << u;
    EXPECT_TRUE(!again || run.master(u).values.equal(again->master(u).values))
        << "a rerun differs in unit " << u;
    EXPECT_TRUE(!frozen[u].defined() || run.frozen(u).equal(frozen[u]))
        << "frozen weights of unit " << u;
  }
}

void on_ranks(const std::function<void(const parallel::Groups&)>& body) {
  at::set_num_threads(1);
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  body(groups_of_test(*session));
  session->check_order();
  session->finish();
}

using Layouts = std::vector<NamedLayout> (*)(int world);

void check_layouts(const parallel::Groups& groups, Layouts layouts, std::uint64_t seed) {
  const model::ModelConfig config = model::preset("micro");
  std::map<std::pair<std::string, int>, Expected> expected;
  for (NamedLayout one : layouts(groups.reduce->world())) {
    one.layout.seed = seed;
    const std::pair key{one.problem, one.layout.num_micro_batches};
    if (!expected.contains(key)) expected[key] = run_alone(config, one.layout);
    check_layout(one, config, groups, expected[key]);
  }
}

void law(int ranks, Layouts layouts = all_layouts, int num_seeds = 1) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = ranks, .timeout_s = 1200}));
  on_ranks([&](const parallel::Groups& groups) {
    for (int seed = 0; seed < num_seeds; ++seed)
      check_layouts(groups, layouts, static_cast<std::uint64_t>(seed));
  });
}

TEST(ParallelLawMultirank, OneRank) {
  law(1);
}
TEST(ParallelLawMultirank, TwoRanks) {
  law(2);
}
TEST(ParallelLawMultirank, ThreeRanks) {
  law(3);
}
TEST(ParallelLawMultirank, FourRanks) {
  law(4);
}

// Two groups of four.
TEST(ParallelLawMultirank, EightRanksInGroups) {
  law(8, hybrid_layouts);
}

TEST(LoraLawMultirank, OneRank) {
  law(1, lora_layouts);
}
TEST(LoraLawMultirank, TwoRanks) {
  law(2, lora_layouts);
}
TEST(LoraLawMultirank, ThreeRanks) {
  law(3, lora_layouts);
}
TEST(LoraLawMultirank, FourRanks) {
  law(4, lora_layouts);
}

TEST(QuantizedLawMultirank, FourRanks) {
  law(4, quantized_layouts);
}

TEST(RoundedLawMultirank, OneRank) {
  law(1, rounded_layouts);
}
TEST(RoundedLawMultirank, TwoRanks) {
  law(2, rounded_layouts);
}
TEST(RoundedLawMultirank, ThreeRanks) {
  law(3, rounded_layouts);
}
TEST(RoundedLawMultirank, FourRanks) {
  law(4, rounded_layouts);
}

// Which weights round the other way is chance: the long tier and tools/isa_matrix draw often.
TEST(RoundedLawSeedsMultirank, TwoRanks) {
  law(2, rounded_orders, soak_factor());
}
TEST(RoundedLawSeedsMultirank, FourRanks) {
  law(4, rounded_orders, soak_factor());
}

// The control: one unit's gradient of one step is left as each rank has it.
TEST(RoundedLawMultirank, ASkippedReductionBreaksTheBound) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2, .timeout_s = 600}));
  on_ranks([](const parallel::Groups& groups) {
    const model::ModelConfig config = model::preset("micro");
    const LawLayout layout{.strategy = parallel::Strategy::no_shard,
                           .num_micro_batches = 6,
                           .recipe = optim::Recipe::bf16_sr};
    const auto [trace, bounds] = run_alone(config, layout);
    LawRun run(config, layout, groups);
    failpoint::configure(
        {.spec = "comm.collective.before=damage", .rank = worker_rank(), .log_path = {}});
    double largest = 0;
    for (std::size_t step = 0; step < trace.steps.size(); ++step)
      largest = std::max(largest,
                         std::abs(run.step().loss - trace.steps[step].loss) / bounds.losses[step]);
    failpoint::configure({});
    EXPECT_GT(largest, 2);
  });
}

}  // namespace
}  // namespace wmtp::test
