// Float8 products in the model: its gradients against fp64 autograd with the same quantisation
// straight through, recompute levels bit for bit, adapters, and what is refused.
#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "model/model_run.h"
#include "support/expect_error.h"
#include "support/tolerance.h"
#include "wmtp/model/float8_projection.h"

namespace wmtp::model {
namespace {

using kernels::Float8Recipe;
using test::make_problem;
using test::ModelRun;
using test::Problem;
using test::relative_error;
using test::rounding_bound;

constexpr Float8Recipe kRecipes[] = {Float8Recipe::tensorwise, Float8Recipe::rowwise};
constexpr Recompute kLevels[] = {Recompute::none, Recompute::light, Recompute::block};

// Regions of a few elements cost more than they do where the cores are busy.
class Float8Model : public ::testing::Test {
 protected:
  Float8Model() { at::set_num_threads(1); }
  ~Float8Model() override { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

// The four shapes with sizes that float8 takes.
std::vector<test::Case> float8_cases() {
  auto all = test::cases();
  for (test::Case& c : all) c.config.dim = 32, c.config.ffn_dim = 48;
  return all;
}

LoraConfig adapters() {
  LoraConfig lora;
  lora.rank = 2, lora.alpha = 4;
  lora.targets = {"q_proj", "v_proj", "down_proj"};
  return lora;
}

Problem one_of(const ModelConfig& config, Float8Recipe recipe,
               const std::optional<LoraConfig>& lora = {}) {
  Problem problem = test::one_document(make_problem(config, lora), 0);
  problem.input.float8 = recipe;
  return problem;
}

// Both in fp64, so that roundings to 8 bits fall alike.
TEST_F(Float8Model, GradientsAreStraightThroughInDouble) {
  for (const test::Case& c : float8_cases())
    for (const Float8Recipe recipe : kRecipes) {
      const Problem problem = one_of(c.config, recipe);
      const auto reference = test::reference_run(problem.config, problem.params, problem.input);
      const double bound = rounding_bound(at::kDouble, problem);
      for (const Recompute level : kLevels) {
        ModelRun run(problem, at::kDouble, level);
        EXPECT_WITHIN(std::abs(run.loss() - reference.loss.item<double>()),
                      bound * std::abs(reference.loss.item<double>()));
        for (const auto& [name, grad] : reference.grads)
          EXPECT_WITHIN(relative_error(run.weights().grad(name), grad), bound)
              << c.name << " " << name << " recipe " << int(recipe) << " level " << int(level);
      }
    }
}

TEST_F(Float8Model, AdaptersComputeAsWithoutIt) {
  for (const Float8Recipe recipe : kRecipes) {
    const Problem problem = one_of(float8_cases()[0].config, recipe, adapters());
    const auto reference = test::reference_run(problem.config, problem.params, problem.input);
    for (const Recompute level : kLevels) {
      ModelRun run(problem, at::kDouble, level);
      run.loss();
      for (const auto& [name, grad] : reference.grads) {
        if (name.find("lora_") == name.npos) continue;
        EXPECT_WITHIN(relative_error(run.weights().grad(name), grad),
                      rounding_bound(at::kDouble, problem))
            << name << " level " << int(level);
      }
    }
  }
}

// fp32 against fp64. What is quantised differs by e = the rounding bound, relatively. It takes
// another code with the probability e / (2^-3 spacing) at most, and is then a spacing away: this
// adds e 2^-3 to the variance of the relative difference. Twice as much for e5m2, and the parts of
// forward and backward add up to some of each block.
TEST_F(Float8Model, SingleIsNearDouble) {
  for (const test::Case& c : float8_cases())
    for (const Float8Recipe recipe : kRecipes) {
      const Problem problem = one_of(c.config, recipe);
      ModelRun wide(problem, at::kDouble, Recompute::none),
          run(problem, at::kFloat, Recompute::none);
      wide.loss(), run.loss();
      const double rounding = rounding_bound(at::kFloat, problem);
      const double operands = 3.0 * 4.0 * static_cast<double>(c.config.num_blocks);
      const double bound = rounding + std::sqrt(operands * rounding * 0x1p-2);
      for (const auto& [name, param] : problem.params)
        EXPECT_WITHIN(relative_error(run.weights().grad(name), wide.weights().grad(name)), bound)
            << c.name << " " << name;
    }
}

// Quantisation itself is far larger than that: the control.
TEST_F(Float8Model, IsNotTheModelWithoutIt) {
  for (const Float8Recipe recipe : kRecipes) {
    const ModelConfig config = float8_cases()[0].config;
    const Problem problem = one_of(config, recipe), plain = one_of(config, Float8Recipe::off);
    ModelRun run(problem, at::kDouble, Recompute::none), exact(plain, at::kDouble, Recompute::none);
    run.loss(), exact.loss();
    for (const auto& [name, param] : problem.params)
      EXPECT_GT(relative_error(run.weights().grad(name), exact.weights().grad(name)), 0x1p-9)
          << name;
  }
}

TEST_F(Float8Model, RecomputeLevelsAreBitEqual) {
  for (const Float8Recipe recipe : kRecipes)
    for (const auto& lora : {std::optional<LoraConfig>{}, std::optional(adapters())}) {
      Problem problem = make_problem(float8_cases()[0].config, lora);
      problem.input.float8 = recipe;
      ModelRun none(problem, at::kFloat, Recompute::none),
          light(problem, at::kFloat, Recompute::light),
          block(problem, at::kFloat, Recompute::block);
      EXPECT_EQ(none.loss(), light.loss());
      block.loss();
      for (const auto& unit : problem.units())
        for (const auto& param : unit.params) {
          if (!param.trained) continue;
          const Tensor grad = none.weights().grad(param.name);
          EXPECT_TRUE(grad.equal(light.weights().grad(param.name))) << param.name;
          EXPECT_TRUE(grad.equal(block.weights().grad(param.name))) << param.name;
        }
    }
}

// One matrix, one scale: what q alone is quantised with depends on v.
TEST_F(Float8Model, FusedProjectionsShareTheirScale) {
  const Problem problem = one_of(float8_cases()[1].config, Float8Recipe::tensorwise);
  const Tensor q_weight =
      problem.params.at("model.layers.0.self_attn.q_proj.weight").to(at::kFloat);
  const Tensor x = q_weight.narrow(0, 0, 3);
  auto q_of = [&](double largest_of_v) {
    Projection fused;
    const Tensor v_weight = at::full({16, q_weight.size(1)}, largest_of_v, at::kFloat);
    fused.weight_OI = at::cat({q_weight, v_weight}, 0);
    fused.float8 = Float8Recipe::tensorwise;
    return forward(fused, x).narrow(1, 0, q_weight.size(0));
  };
  EXPECT_FALSE(q_of(1.7).equal(q_of(1.9)));
}

TEST_F(Float8Model, KeepsInputsOfWeightGradientsInEightBits) {
  Projection projection;
  projection.weight_OI = at::full({48, 32}, 0.5f);
  const Tensor x = at::full({5, 32}, 2.0f);
  for (const Float8Recipe recipe : kRecipes) {
    projection.float8 = recipe, projection.frozen = false;
    kernels::Float8Matrix kept;
    forward(projection, x, &kept);
    ASSERT_TRUE(kept.defined());
    EXPECT_EQ(kept.values_RK.nbytes(), 32 * 16);  // a byte each, five tokens padded to 16
    projection.frozen = true;
    kernels::Float8Matrix nothing;
    forward(projection, x, &nothing);
    EXPECT_FALSE(nothing.defined());
  }
}

TEST_F(Float8Model, SizesThatAreNoMultiplesOf16AreRefusedByName) {
  ModelConfig config = float8_cases()[0].config;
  check_float8_sizes(config, "float8");
  config.dim = 24, config.ffn_dim = 40;
  EXPECT_WMTP_ERROR(
      check_float8_sizes(config, "training.float8"), ErrorKind::config,
      "training.float8: products in float8 take multiples of 16, but the model has dim "
      "24, ffn_dim 40");
}

}  // namespace
}  // namespace wmtp::model
