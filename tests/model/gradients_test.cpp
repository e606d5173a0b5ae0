// Our forward and backward against fp64 autograd and finite differences: packed documents, per-row
// weights, every recompute level.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "model/model_run.h"
#include "support/tolerance.h"
#include "wmtp/model/init_weights.h"

namespace wmtp::model {
namespace {

using test::Case;
using test::cases;
using test::make_problem;
using test::ModelRun;
using test::Problem;
using test::relative_error;
using test::rounding_bound;

TEST(Gradients, EqualAutogradInDouble) {
  for (const Case& c : cases()) {
    const Problem problem = make_problem(c.config);
    const auto reference = test::reference_run(problem.config, problem.params, problem.input);
    const double bound = rounding_bound(at::kDouble, problem);
    for (Recompute level : {Recompute::none, Recompute::light, Recompute::block}) {
      ModelRun run(problem, at::kDouble, level);
      EXPECT_WITHIN(std::abs(run.loss() - reference.loss.item<double>()),
                    bound * std::abs(reference.loss.item<double>()));
      for (const auto& [name, grad] : reference.grads)
        EXPECT_WITHIN(relative_error(run.weights().grad(name), grad), bound)
            << c.name << " " << name << " level " << int(level);
    }
  }
}

TEST(Gradients, EqualAutogradInSingle) {
  for (const Case& c : cases()) {
    const Problem problem = make_problem(c.config);
    const auto reference = test::reference_run(problem.config, problem.params, problem.input);
    for (Recompute level : {Recompute::none, Recompute::light, Recompute::block}) {
      ModelRun run(problem, at::kFloat, level);
      run.loss();
      for (const auto& [name, grad] : reference.grads)
        EXPECT_WITHIN(relative_error(run.weights().grad(name), grad),
                      rounding_bound(at::kFloat, problem))
            << c.name << " " << name;
    }
  }
}

TEST(Gradients, RecomputeLevelsAreBitEqual) {
  const Problem problem = make_problem(cases()[0].config);
  ModelRun none(problem, at::kFloat, Recompute::none), light(problem, at::kFloat, Recompute::light),
      block(problem, at::kFloat, Recompute::block);
  none.loss(), light.loss(), block.loss();
  for (const auto& [name, param] : problem.params) {
    EXPECT_TRUE(none.weights().grad(name).equal(light.weights().grad(name))) << name;
    EXPECT_TRUE(none.weights().grad(name).equal(block.weights().grad(name))) << name;
  }
}

TEST(Gradients, EqualDirectionalDifferences) {
  for (const Case& c : cases()) {
    Problem problem = make_problem(c.config);
    ModelRun at_point(problem, at::kDouble, Recompute::none);
    at_point.loss();
    std::map<std::string, Tensor> direction;
    double slope = 0;
    std::uint64_t seed = 0;
    for (const auto& [name, param] : problem.params) {
      direction[name] = at::empty({param.numel()}, at::kDouble);
      random_init({"d/" + name + "/d", {param.numel(), 1}}, ++seed, 1.0, 0, direction[name]);
      direction[name] = direction[name].view(param.sizes());
      slope += direction[name].mul(at_point.weights().grad(name)).sum().item<double>();
    }
    // Fourth-order central differences: twice the distance has 16 times the error, so that the two
    // are 15 errors apart. The losses' own roundings are divided by the distance.
    auto value = [&](double t) {
      Problem moved = problem;
      for (auto& [name, param] : moved.params) param = param.add(direction[name], t);
      return ModelRun(moved, at::kDouble, Recompute::none).loss();
    };
    const double h = 2e-4;
    const double once = value(h) - value(-h), twice = value(2 * h) - value(-2 * h),
                 four_times = value(4 * h) - value(-4 * h);
    const double difference = (8 * once - twice) / (12 * h);
    const double coarser = (8 * twice - four_times) / (24 * h);
    const double rounding = rounding_bound(at::kDouble, problem) * value(0) / h;
    EXPECT_WITHIN(std::abs(difference - slope), 3 * std::abs(coarser - difference) / 15 + rounding)
        << c.name;
  }
}

TEST(Heads, AreParallel) {
  const Problem problem = make_problem(cases()[0].config);
  Problem changed = problem;
  changed.params["model.extra_heads.0.mlp.up_proj.weight"] =
      changed.params["model.extra_heads.0.mlp.up_proj.weight"].mul(2);
  ModelRun a(problem, at::kFloat, Recompute::none), b(changed, at::kFloat, Recompute::none);
  EXPECT_TRUE(a.logits(0).equal(b.logits(0)));
  EXPECT_FALSE(a.logits(1).equal(b.logits(1)));
  EXPECT_TRUE(a.logits(2).equal(b.logits(2)));
}

TEST(Logits, EqualTheReference) {
  for (const Case& c : cases()) {
    const Problem problem = make_problem(c.config);
    const auto reference = test::reference_run(problem.config, problem.params, problem.input);
    ModelRun run(problem, at::kFloat, Recompute::none);
    for (int head = 0; head < c.config.n_future; ++head) {
      const Tensor want = reference.logits[static_cast<std::size_t>(head)];
      const double error = run.logits(head).to(at::kDouble).sub(want).abs().max().item<double>();
      EXPECT_WITHIN(error, rounding_bound(at::kFloat, problem) * want.abs().max().item<double>())
          << c.name;
    }
  }
}

}  // namespace
}  // namespace wmtp::model
