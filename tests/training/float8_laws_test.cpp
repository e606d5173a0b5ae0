// Float8 in one process: exact resume, which laws of micro-batches hold, and that training
// converges as it does without.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "support/runs/law_run.h"
#include "support/soak.h"
#include "support/tolerance.h"
#include "training/stage_cases.h"
#include "wmtp/comm/groups.h"
#include "wmtp/core/rng.h"

namespace wmtp::test {
namespace {

using kernels::Float8Recipe;

class Float8Training : public ::testing::Test {
 protected:
  Float8Training()
      : gather_(comm::make_single("gather", c10::Device(c10::kCPU))),
        reduce_(comm::make_single("reduce", c10::Device(c10::kCPU))) {
    at::set_num_threads(1);
  }
  ~Float8Training() override { at::set_num_threads(before_); }
  parallel::Groups groups() { return {gather_.get(), reduce_.get()}; }

 private:
  int before_ = at::get_num_threads();
  std::unique_ptr<comm::Communicator> gather_, reduce_;
};

// Scales are taken anew in every product: masters and moments are all there is to save.
TEST_F(Float8Training, ResumesWithTheSameBits) {
  for (const auto recipe : {Float8Recipe::tensorwise, Float8Recipe::rowwise}) {
    const LawLayout layout{.float8 = recipe};
    LawRun whole(tiny_model(), layout, groups());
    for (int step = 0; step < 2; ++step) whole.step();
    LawRun rest(tiny_model(), layout, groups());
    rest.resume(whole);
    for (int step = 0; step < 2; ++step) EXPECT_EQ(whole.step().loss, rest.step().loss);
    EXPECT_TRUE(equal(masters(whole), masters(rest)));
  }
}

constexpr double kMostTokens = 8 * 20;  // of eight rows

StageTrace first_step(Float8Recipe recipe, int batch_size, int row_stride = 0) {
  const StageCase one{"baseline",
                      {.batch_size = batch_size, .row_stride = row_stride, .float8 = recipe}};
  return run_alone(one.setup, steps_of(one, {8}));
}

double distance_of_grads(const StageTrace& found, const StageTrace& expected) {
  double largest = 0;
  for (std::size_t u = 0; u < expected.first_grads.size(); ++u)
    largest =
        std::max(largest, found.first_grads[u].sub(expected.first_grads[u]).norm().item<double>() /
                              expected.first_grads[u].norm().item<double>());
  return largest;
}

// Rowwise, a token's scales in the forward and in dx are its own. Those of the weight gradient are
// of the micro-batch, but powers of two: a number keeps its relative rounding under each of them as
// long as it is normal in float8, and one that is not is off by at most 2^-10 / 224 of its column's
// amax, 4.4e-6. A column's amax is about ten times its root mean square at most.
TEST_F(Float8Training, RowwiseMicroBatchesAndPaddingDoNotMatter) {
  const StageTrace whole = first_step(Float8Recipe::rowwise, 8);
  for (const auto& [batch_size, row_stride] : {std::pair{1, 0}, {3, 0}, {8, 24}}) {
    const StageTrace parts = first_step(Float8Recipe::rowwise, batch_size, row_stride);
    const training::StepResult& wanted = whole.results[0];
    EXPECT_WITHIN(std::abs(parts.results[0].loss - wanted.loss),
                  0x1p-24 * std::sqrt(kMostTokens) * wanted.loss);
    EXPECT_WITHIN(distance_of_grads(parts, whole), 4.4e-5);
  }
}

// Tensorwise the law cannot hold: every number is multiplied with a scale of its company, and
// rounds elsewhere under another.
TEST_F(Float8Training, TensorwiseMicroBatchesDoMatter) {
  const StageTrace whole = first_step(Float8Recipe::tensorwise, 8);
  EXPECT_GT(distance_of_grads(first_step(Float8Recipe::tensorwise, 1), whole), 1e-3);
}

// Text of a rule: mostly 5 id + 3, sometimes anything.
std::vector<StageSample> learnable_samples(int count, std::uint64_t seed) {
  RngStream rng(seed, "float8/text");
  std::vector<StageSample> samples;
  for (int i = 0; i < count; ++i) {
    StageRow row;
    auto id = static_cast<std::int32_t>(rng.below(64));
    for (int t = 0; t < 24; ++t) {
      row.ids.push_back(id);
      id = rng.below(10) == 0 ? static_cast<std::int32_t>(rng.below(64)) : (5 * id + 3) % 64;
    }
    samples.push_back({row});
  }
  return samples;
}

// Mean loss of the last tenth of the steps.
double trained_loss(Float8Recipe recipe, std::uint64_t seed, int num_steps,
                    const parallel::Groups& groups) {
  StageRun run({.seed = seed, .float8 = recipe}, groups);
  const int counted = num_steps / 10;
  double sum = 0;
  for (int step = 0; step < num_steps; ++step) {
    const double loss =
        run.step(learnable_samples(4, 1000 * seed + static_cast<std::uint64_t>(step))).loss;
    if (step >= num_steps - counted) sum += loss;
  }
  return sum / counted;
}

struct Spread {
  double mean = 0, deviation = 0;
};

Spread spread_of(Float8Recipe recipe, int num_seeds, int num_steps,
                 const parallel::Groups& groups) {
  std::vector<double> losses;
  for (int seed = 1; seed <= num_seeds; ++seed)
    losses.push_back(trained_loss(recipe, static_cast<std::uint64_t>(seed), num_steps, groups));
  Spread spread;
  for (const double loss : losses) spread.mean += loss / num_seeds;
  for (const double loss : losses)
    spread.deviation += (loss - spread.mean) * (loss - spread.mean) / (num_seeds - 1);
  spread.deviation = std::sqrt(spread.deviation);
  fmt::print("recipe {}, {} steps, loss {} of {} seeds: {:.4f} +- {:.4f}\n", int(recipe), num_steps,
             fmt::join(losses, " "), num_seeds, spread.mean, spread.deviation);
  return spread;
}

// The same seeds have the same weights and text, so the differences are float8's: within what
// another seed changes.
TEST_F(Float8Training, ConvergesAsWithout) {
  const int num_steps = 120 * soak_factor(), num_seeds = 3;
  const Spread exact = spread_of(Float8Recipe::off, num_seeds, num_steps, groups());
  EXPECT_LT(exact.mean, 0.8 * std::log(64));
  for (const auto recipe : {Float8Recipe::tensorwise, Float8Recipe::rowwise}) {
    const Spread found = spread_of(recipe, num_seeds, num_steps, groups());
    EXPECT_LT(std::abs(found.mean - exact.mean), exact.deviation);
    EXPECT_NE(found.mean, exact.mean);
  }
}

}  // namespace
}  // namespace wmtp::test
