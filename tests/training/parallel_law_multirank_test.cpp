// N ranks == 1 rank: gradients, parameters and loss, for every strategy, recompute level and number
// of micro-batches.
#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/multi_process.h"
#include "training/law_run.h"
#include "wmtp/comm/session.h"

namespace wmtp::test {
namespace {

constexpr int kLawSteps = 5;

struct NamedLayout {
  std::string name;
  LawLayout layout;
  std::string problem = "full";  // layouts of one problem and number of micro-batches are equal
};

std::vector<NamedLayout> all_layouts(int world) {
  using model::Recompute;
  using parallel::Strategy;
  std::vector<NamedLayout> layouts;
  for (Strategy strategy : {Strategy::no_shard, Strategy::shard_grad_op, Strategy::full_shard})
    for (Recompute recompute : {Recompute::none, Recompute::light, Recompute::block})
      for (int accumulation : {1, 3})
        layouts.push_back(
            {fmt::format("{} recompute {} x {}", name_of(strategy), int(recompute), accumulation),
             {.strategy = strategy,
              .recompute = recompute,
              .num_micro_batches = world * accumulation}});
  layouts.push_back({"no_sync", {.num_micro_batches = 3 * world, .no_sync = true}});
  layouts.push_back({"prefetch 3", {.num_micro_batches = world, .prefetch = 3}});
  layouts.push_back({"prefetch 0", {.num_micro_batches = world, .prefetch = 0}});
  return layouts;
}

// Frozen and trained parameters in one unit; units without a trained one, and units trained whole
// beside them. Accumulating layouts drop inputs of the adapters: masks follow the samples.
std::vector<NamedLayout> lora_layouts(int world) {
  model::LoraConfig adapters;
  adapters.rank = 4, adapters.alpha = 8;
  model::LoraConfig mixed = adapters;
  mixed.targets = {"q_proj", "v_proj", "down_proj"};
  mixed.scope = model::LoraScope::trunk, mixed.train_heads = true, mixed.dropout = 0.1;
  std::vector<NamedLayout> layouts;
  for (const NamedLayout& one : all_layouts(world)) {
    const bool drops = one.layout.num_micro_batches > world;
    layouts.push_back({(drops ? "lora with dropout, " : "lora, ") + one.name, one.layout,
                       drops ? "dropout" : "adapters"});
    layouts.back().layout.lora = adapters;
    if (drops) layouts.back().layout.lora->dropout = 0.25;
  }
  for (auto strategy : {parallel::Strategy::shard_grad_op, parallel::Strategy::full_shard})
    layouts.push_back({fmt::format("lora of the trunk, heads whole, {}", name_of(strategy)),
                       {.strategy = strategy, .num_micro_batches = world, .lora = mixed},
                       "mixed"});
  return layouts;
}

std::vector<NamedLayout> rounded_layouts(int world) {
  std::vector<NamedLayout> layouts;
  for (NamedLayout one : all_layouts(world)) {
    if (one.layout.recompute != model::Recompute::none) continue;
    one.layout.recipe = optim::Recipe::bf16_sr;
    layouts.push_back({"bf16_sr, " + one.name, one.layout, "bf16_sr"});
  }
  return layouts;
}

// The run of a single process with the same samples: what every layout must reproduce.
struct Expected {
  std::vector<Tensor> first_grads, start, end;
  std::vector<double> losses;
};

Expected run_alone(const model::ModelConfig& config, LawLayout layout) {
  const auto gather = comm::make_single("gather", c10::Device(c10::kCPU));
  const auto reduce = comm::make_single("reduce", c10::Device(c10::kCPU));
  layout.strategy = parallel::Strategy::no_shard;
  layout.recompute = model::Recompute::none;
  LawRun run(config, layout, {gather.get(), reduce.get()});
  Expected expected;
  for (std::size_t u = 0; u < run.num_units(); ++u)
    expected.start.push_back(run.master(u).values.clone());
  for (int step = 0; step < kLawSteps; ++step) {
    expected.losses.push_back(run.step().loss);
    for (std::size_t u = 0; step == 0 && u < run.num_units(); ++u)
      expected.first_grads.push_back(run.grad(u).values.clone());
  }
  for (std::size_t u = 0; u < run.num_units(); ++u)
    expected.end.push_back(run.master(u).values.clone());
  return expected;
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
  SCOPED_TRACE(one.name);
  LawRun run(config, one.layout, groups), again(config, one.layout, groups);
  const bool counts = run.model().runtime().counts_once();
  // A last bit of the gradient now and then changes which neighbour a weight is rounded to.
  const double limit = one.layout.recipe == optim::Recipe::bf16_sr ? 1e-2 : 1e-3;
  std::vector<Tensor> frozen;
  for (std::size_t u = 0; u < run.num_units(); ++u) frozen.push_back(copy_of(run.frozen(u)));
  for (int step = 0; step < kLawSteps; ++step) {
    const auto result = run.step();
    EXPECT_TRUE(result.applied);
    EXPECT_NEAR(result.loss, expected.losses[static_cast<std::size_t>(step)], 1e-5);
    again.step();
    for (std::size_t u = 0; step == 0 && u < run.num_units(); ++u)
      EXPECT_LE(distance(*groups.reduce, run.grad(u), expected.first_grads[u], counts),
                1e-6 * expected.first_grads[u].norm().item<double>())
          << "gradient of unit " << u;
  }
  for (std::size_t u = 0; u < run.num_units(); ++u) {
    const double update =
        expected.end[u].to(at::kDouble).sub(expected.start[u]).norm().item<double>();
    EXPECT_LE(distance(*groups.reduce, run.master(u), expected.end[u], counts), limit * update)
        << "weights of unit " << u;
    EXPECT_TRUE(run.master(u).values.equal(again.master(u).values))
        << "a rerun differs in unit " << u;
    EXPECT_TRUE(!frozen[u].defined() || run.frozen(u).equal(frozen[u]))
        << "frozen weights of unit " << u;
  }
}

using Layouts = std::vector<NamedLayout> (*)(int world);

void run_rank_of_law(Layouts layouts) {
  at::set_num_threads(1);
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  const parallel::Groups groups{&session->gather_group(), &session->reduce_group()};
  const model::ModelConfig config = model::preset("micro");
  std::map<std::pair<std::string, int>, Expected> expected;
  for (const NamedLayout& one : layouts(session->world())) {
    const std::pair key{one.problem, one.layout.num_micro_batches};
    if (!expected.contains(key)) expected[key] = run_alone(config, one.layout);
    check_layout(one, config, groups, expected[key]);
  }
  session->check_order();
  session->finish();
}

void law(int ranks, Layouts layouts = all_layouts) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = ranks, .timeout_s = 1200}));
  run_rank_of_law(layouts);
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

}  // namespace
}  // namespace wmtp::test
