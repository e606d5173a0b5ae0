// Our forward and backward against fp64 autograd and finite differences: packed documents, per-row weights, every
// recompute level.
#include <ATen/ops/empty.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "model/reference_model.h"
#include "wmtp/core/rng.h"
#include "wmtp/model/init_weights.h"
#include "wmtp/model/local_weights.h"
#include "wmtp/model/transformer.h"
#include "wmtp/model/weight_names.h"

namespace wmtp::model {
namespace {

struct Case {
  std::string name;
  ModelConfig config;
};

ModelConfig small_config() {
  ModelConfig config;
  config.dim = 24, config.num_blocks = 4, config.num_heads = 4, config.num_kv_heads = 2, config.head_dim = 8;
  config.ffn_dim = 40, config.vocab_size = 37, config.n_future = 3;
  return config;
}

std::vector<Case> cases() {
  Case mtp{"mtp", small_config()}, plain{"plain", small_config()}, qwen{"qwen3", small_config()};
  plain.config.n_future = 1, plain.config.num_blocks = 2, plain.config.num_kv_heads = 4;
  qwen.config.n_future = 1, qwen.config.num_blocks = 2, qwen.config.qk_norm = true, qwen.config.tied = true;
  qwen.config.head_dim = 16;
  Case headless{"no_trunk", small_config()};
  headless.config.n_future = 2, headless.config.num_blocks = 2, headless.config.num_kv_heads = 1;
  return {mtp, plain, qwen, headless};
}

struct Problem {
  ModelConfig config;
  test::ReferenceInput input;
  std::map<std::string, Tensor> params;   // fp64
};

// Three documents; the first tokens of each are prompt, so heads have different numbers of rows.
Problem make_problem(const ModelConfig& config) {
  Problem problem{config, {}, {}};
  RngStream rng(11, "gradients_test");
  problem.input.doc_start = {0, 9, 10, 17};
  const std::vector<int> prompt{3, 0, 2};
  for (int i = 0; i < 17; ++i) problem.input.tokens.push_back(static_cast<std::int32_t>(rng.below(37)));
  for (std::int64_t head = 1; head <= config.n_future; ++head) {
    std::vector<std::int64_t> rows, targets;
    std::vector<double> scales;
    for (std::size_t d = 0; d < 3; ++d)
      for (std::int64_t i = problem.input.doc_start[d]; i + head < problem.input.doc_start[d + 1]; ++i) {
        if (i + head < problem.input.doc_start[d] + prompt[d]) continue;
        rows.push_back(i);
        targets.push_back(problem.input.tokens[static_cast<std::size_t>(i + head)]);
        scales.push_back(0.1 + unit_uniform(rng.next()[0]));
      }
    problem.input.rows.push_back(rows);
    problem.input.targets.push_back(targets);
    problem.input.scales.push_back(at::tensor(scales, at::kDouble));
  }
  for (const auto& unit : model_units(config))
    for (const auto& param : unit.params) {
      Tensor values = at::empty({param.numel()}, at::kDouble);
      draw_weights({"x/" + param.name + "/x", param.shape}, 5, 0.3, 0, values);   // not only ones in the norms
      if (param.shape.size() == 1) values.add_(1.0);
      problem.params[param.name] = values.view(param.shape);
    }
  return problem;
}

class ModelRun {
 public:
  ModelRun(const Problem& problem, at::ScalarType dtype, Recompute level)
      : problem_(problem),
        dtype_(dtype),
        weights_(model_units(problem.config), dtype, c10::Device(c10::kCPU), true),
        model_(problem.config, weights_, &weights_, {.recompute = level, .attention = {}, .loss_chunk_rows = 5}) {
    for (const auto& [name, value] : problem.params) weights_.param(name).copy_(value);
  }

  // Sum of scale * nll; gradients into weights().
  double loss() {
    const Batch batch = make_batch();
    TrunkPass trunk = model_.forward_trunk(batch);
    double sum = 0;
    for (int head = 0; head < problem_.config.n_future; ++head) {
      const Tensor scale = problem_.input.scales[static_cast<std::size_t>(head)].to(dtype_);
      HeadPass pass = model_.forward_head(trunk, batch, head);
      EXPECT_TRUE(model_.nll(trunk, pass, batch).equal(model_.nll(trunk, pass, batch)));
      const Tensor nll = model_.backward_head(trunk, std::move(pass), batch, scale);
      sum += nll.to(at::kDouble).mul(problem_.input.scales[static_cast<std::size_t>(head)]).sum().item<double>();
    }
    model_.backward_trunk(std::move(trunk), batch);
    return sum;
  }

  LocalWeights& weights() { return weights_; }
  Transformer& model() { return model_; }

  Batch make_batch() const {
    const auto& input = problem_.input;
    std::vector<std::int32_t> positions;
    for (std::size_t d = 0; d + 1 < input.doc_start.size(); ++d)
      for (std::int32_t i = input.doc_start[d]; i < input.doc_start[d + 1]; ++i) positions.push_back(i - input.doc_start[d]);
    Batch batch;
    batch.tokens_N = at::tensor(input.tokens, at::kInt);
    batch.documents = kernels::make_documents(input.doc_start, c10::Device(c10::kCPU));
    batch.rope = kernels::rope_table(at::tensor(positions, at::kInt), at::tensor(inv_freq(problem_.config), at::kFloat).to(dtype_));
    for (std::size_t head = 0; head < input.rows.size(); ++head)
      batch.heads.push_back({at::tensor(input.rows[head], at::kInt), at::tensor(input.targets[head], at::kInt)});
    return batch;
  }

 private:
  const Problem& problem_;
  at::ScalarType dtype_;
  LocalWeights weights_;
  Transformer model_;
};

double relative_error(const Tensor& got, const Tensor& want) {
  const double scale = want.norm().item<double>();
  return got.to(at::kDouble).sub(want).norm().item<double>() / std::max(scale, 1e-30);
}

TEST(Gradients, EqualAutogradInDouble) {
  for (const Case& c : cases()) {
    const Problem problem = make_problem(c.config);
    const auto reference = test::reference_run(problem.config, problem.params, problem.input);
    for (Recompute level : {Recompute::none, Recompute::light, Recompute::block}) {
      ModelRun run(problem, at::kDouble, level);
      EXPECT_NEAR(run.loss(), reference.loss.item<double>(), 1e-11 * std::abs(reference.loss.item<double>()));
      for (const auto& [name, grad] : reference.grads)
        EXPECT_LE(relative_error(run.weights().grad(name), grad), 1e-10) << c.name << " " << name << " level " << int(level);
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
        EXPECT_LE(relative_error(run.weights().grad(name), grad), 1e-5) << c.name << " " << name;
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
      draw_weights({"d/" + name + "/d", {param.numel(), 1}}, ++seed, 1.0, 0, direction[name]);
      direction[name] = direction[name].view(param.sizes());
      slope += direction[name].mul(at_point.weights().grad(name)).sum().item<double>();
    }
    // Fourth-order central differences.
    auto value = [&](double t) {
      Problem moved = problem;
      for (auto& [name, param] : moved.params) param = param.add(direction[name], t);
      return ModelRun(moved, at::kDouble, Recompute::none).loss();
    };
    const double h = 2e-4;
    const double difference = (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h);
    EXPECT_NEAR(difference, slope, 1e-7 * std::abs(slope)) << c.name;
  }
}

TEST(Heads, AreParallel) {
  const Problem problem = make_problem(cases()[0].config);
  Problem changed = problem;
  changed.params["model.extra_heads.0.mlp.up_proj.weight"] = changed.params["model.extra_heads.0.mlp.up_proj.weight"].mul(2);
  auto logits = [](ModelRun& run, int head) {
    const Batch batch = run.make_batch();
    const TrunkPass trunk = run.model().forward_trunk(batch);
    const HeadPass pass = run.model().forward_head(trunk, batch, head);
    return run.model().logits(trunk, pass);
  };
  ModelRun a(problem, at::kFloat, Recompute::none), b(changed, at::kFloat, Recompute::none);
  EXPECT_TRUE(logits(a, 0).equal(logits(b, 0)));
  EXPECT_FALSE(logits(a, 1).equal(logits(b, 1)));
  EXPECT_TRUE(logits(a, 2).equal(logits(b, 2)));
}

TEST(Logits, EqualTheReference) {
  for (const Case& c : cases()) {
    const Problem problem = make_problem(c.config);
    const auto reference = test::reference_run(problem.config, problem.params, problem.input);
    ModelRun run(problem, at::kFloat, Recompute::none);
    const Batch batch = run.make_batch();
    const TrunkPass trunk = run.model().forward_trunk(batch);
    for (int head = 0; head < c.config.n_future; ++head) {
      const HeadPass pass = run.model().forward_head(trunk, batch, head);
      const Tensor want = reference.logits[static_cast<std::size_t>(head)];
      const double error = run.model().logits(trunk, pass).to(at::kDouble).sub(want).abs().max().item<double>();
      EXPECT_LE(error, 1e-5 * want.abs().max().item<double>()) << c.name;
    }
  }
}

}  // namespace
}  // namespace wmtp::model
