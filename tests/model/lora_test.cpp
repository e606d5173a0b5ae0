// LoRA: gradients of A and B against fp64 autograd, what is trained and what is frozen, the start,
// merging, dropout masks, and the counts of known models.
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "model/model_run.h"
#include "support/expect_error.h"
#include "support/tolerance.h"
#include "wmtp/core/rng.h"
#include "wmtp/model/adapters.h"
#include "wmtp/model/init_weights.h"
#include "wmtp/model/presets.h"
#include "wmtp/model/weight_names.h"

namespace wmtp::model {
namespace {

using test::cases;
using test::make_problem;
using test::ModelRun;
using test::Problem;
using test::relative_error;
using test::rounding_bound;

const std::vector<std::string> kAttention{"q_proj", "k_proj", "v_proj", "o_proj"};
const std::vector<std::string> kAll{"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                    "gate_proj", "up_proj", "down_proj"};

LoraConfig lora_of(std::vector<std::string> targets, LoraScope scope = LoraScope::both) {
  LoraConfig lora;
  lora.rank = 3, lora.alpha = 4, lora.targets = std::move(targets), lora.scope = scope;
  return lora;
}

// Every trained parameter's gradient equals autograd's; a frozen one has none. Returns how many
// were trained.
int expect_gradients(const Problem& problem, const std::string& name) {
  const auto reference = test::reference_run(problem.config, problem.params, problem.input);
  int trained = 0;
  for (const auto dtype : {at::kDouble, at::kFloat})
    for (Recompute level : {Recompute::none, Recompute::light, Recompute::block}) {
      SCOPED_TRACE(fmt::format("{} recompute {} dtype {}", name, int(level), int(dtype)));
      const double bound = rounding_bound(dtype, problem);
      ModelRun run(problem, dtype, level);
      EXPECT_WITHIN(std::abs(run.loss() - reference.loss.item<double>()),
                    bound * std::abs(reference.loss.item<double>()));
      trained = 0;
      for (const auto& unit : run.weights().units())
        for (const auto& param : unit.params) {
          const Tensor grad = run.weights().grad(param.name);
          EXPECT_EQ(grad.defined(), param.trained) << param.name;
          if (!param.trained) continue;
          ++trained;
          EXPECT_WITHIN(relative_error(grad, reference.grads.at(param.name)), bound) << param.name;
          EXPECT_GT(grad.norm().item<double>(), 0) << param.name;
        }
    }
  return trained;
}

void expect_equal_grads(ModelRun& a, ModelRun& b) {
  for (const auto& unit : a.weights().units())
    for (const auto& param : unit.params)
      if (param.trained) {
        EXPECT_TRUE(a.weights().grad(param.name).equal(b.weights().grad(param.name))) << param.name;
      }
}

void expect_equal_levels(const Problem& problem) {
  ModelRun none(problem, at::kFloat, Recompute::none), light(problem, at::kFloat, Recompute::light),
      block(problem, at::kFloat, Recompute::block);
  none.loss(), light.loss(), block.loss();
  expect_equal_grads(none, light);
  expect_equal_grads(none, block);
}

TEST(Lora, GradientsEqualAutogradForEveryTarget) {
  std::vector<std::vector<std::string>> sets{kAttention, kAll};
  for (const std::string& target : kAll) sets.push_back({target});
  for (const auto& c : cases())
    for (const auto& set : sets) {
      const Problem problem = make_problem(c.config, lora_of(set));
      const auto adapted = static_cast<int>(2 * set.size()) * static_cast<int>(c.config.num_blocks);
      EXPECT_EQ(expect_gradients(problem,
                                 fmt::format("{} {} targets from {}", c.name, set.size(), set[0])),
                adapted);
    }
}

TEST(Lora, GradientsEqualAutogradForEveryScope) {
  const ModelConfig config = cases()[0].config;  // 1 trunk block, 3 head blocks of 9 parameters
  EXPECT_EQ(expect_gradients(make_problem(config, lora_of(kAttention, LoraScope::trunk)), "trunk"),
            8);
  EXPECT_EQ(expect_gradients(make_problem(config, lora_of(kAttention, LoraScope::heads)), "heads"),
            24);
  LoraConfig whole = lora_of(kAll, LoraScope::trunk);
  whole.train_heads = true;
  EXPECT_EQ(expect_gradients(make_problem(config, whole), "heads trained whole"), 14 + 27);
}

// Ranks and scales that differ within q|k|v and gate|up, and a projection between them without.
LoraConfig unequal_lora(const ModelConfig& config) {
  LoraConfig lora = lora_of(kAll);
  for (const auto& unit : lora_units(config, lora))
    for (const auto& param : unit.params) {
      const std::size_t end = param.name.find(".lora_A.weight");
      if (end == std::string::npos || param.name.find("k_proj") != std::string::npos) continue;
      const auto n = static_cast<std::int64_t>(lora.modules.size());
      lora.modules[param.name.substr(0, end)] = {1 + n % 4, 1.0 + static_cast<double>(n % 3)};
    }
  return lora;
}

TEST(Lora, GradientsEqualAutogradWithRanksAndScalesOfTheirOwn) {
  for (const auto& c : cases()) {
    const Problem problem = make_problem(c.config, unequal_lora(c.config));
    EXPECT_EQ(expect_gradients(problem, c.name + " unequal"), 12 * c.config.num_blocks);
    expect_equal_levels(problem);
  }
}

// In the order of the flat buffer: what one product reads is one matrix.
TEST(Lora, AOfOneInputLieNextToEachOther) {
  const auto units = lora_units(cases()[1].config, lora_of(kAll));
  std::string order;
  for (const auto& param : units.at(1).params)
    if (param.trained)
      order += param.name.substr(param.name.find("_proj") - 1, 1) +
               param.name.substr(param.name.find("lora_") + 5, 1) + " ";
  EXPECT_EQ(order, "qA kA vA qB kB vB oA oB eA pA eB pB nA nB ");
}

TEST(Lora, NothingIsKeptForFrozenMatricesWithoutAdapters) {
  struct Kept {
    std::vector<std::string> targets;
    bool a, m, product;
  };
  const Kept sets[] = {{kAll, true, true, true},          {kAttention, true, false, false},
                       {{"k_proj"}, true, false, false},  {{"o_proj"}, false, false, false},
                       {{"up_proj"}, false, true, false}, {{"down_proj"}, false, false, true}};
  for (const Kept& set : sets)
    for (const auto& c : cases()) {
      const Problem problem = make_problem(c.config, lora_of(set.targets));
      expect_equal_levels(problem);
      if (c.config.num_trunk_blocks() == 0) continue;
      ModelRun run(problem, at::kFloat, Recompute::none);
      const BlockActivations kept = run.model().forward_trunk(run.make_batch()).blocks.at(0);
      EXPECT_EQ(kept.a_ND.defined(), set.a) << c.name << set.targets[0];
      EXPECT_EQ(kept.m_MD.defined(), set.m) << c.name << set.targets[0];
      EXPECT_EQ(kept.product_MF.defined(), set.product) << c.name << set.targets[0];
    }
}

TEST(Lora, RsLoraDividesByTheRoot) {
  LoraConfig lora = lora_of(kAll);
  EXPECT_DOUBLE_EQ(lora.scale(), 4.0 / 3.0);
  lora.rslora = true;
  EXPECT_DOUBLE_EQ(lora.scale(), 4.0 / std::sqrt(3.0));
  expect_gradients(make_problem(cases()[0].config, lora), "rslora");
}

TEST(Lora, RecomputeLevelsAreBitEqual) {
  for (const auto& c : cases()) expect_equal_levels(make_problem(c.config, lora_of(kAll)));
}

TEST(Lora, StartsAsTheBase) {
  for (const auto& c : cases()) {
    Problem adapted = make_problem(c.config, lora_of(kAll)), base = make_problem(c.config);
    for (const auto& unit : adapted.units())
      for (const auto& param : unit.params)
        if (param.name.find("lora_") != std::string::npos) {
          const Tensor values = at::empty({param.numel()}, at::kDouble);
          random_init(param, 3, 0.02, 0, values);
          EXPECT_EQ(values.abs().max().item<double>() > 0, param.name.ends_with("lora_A.weight"))
              << param.name;
          adapted.params[param.name] = values.view(param.shape);
        }
    ModelRun with(adapted, at::kFloat, Recompute::none), without(base, at::kFloat, Recompute::none);
    for (int head = 0; head < c.config.n_future; ++head)
      EXPECT_TRUE(with.logits(head).equal(without.logits(head))) << c.name << " head " << head;
  }
}

TEST(Lora, MergedEqualsUnmerged) {
  for (const auto& c : cases()) {
    const Problem adapted = make_problem(c.config, unequal_lora(c.config));
    Problem folded = make_problem(c.config);
    for (auto& [name, value] : folded.params) {
      const std::string module = name.substr(0, name.rfind('.'));
      const auto a = adapted.params.find(module + ".lora_A.weight");
      if (a != adapted.params.end())
        value = merged(value, a->second, adapted.params.at(module + ".lora_B.weight"),
                       adapted.input.lora_scale(module));
    }
    for (const auto dtype : {at::kDouble, at::kFloat}) {
      ModelRun with(adapted, dtype, Recompute::none), without(folded, dtype, Recompute::none);
      for (int head = 0; head < c.config.n_future; ++head)
        EXPECT_WITHIN(relative_error(with.logits(head), without.logits(head).to(at::kDouble)),
                      rounding_bound(dtype, adapted))
            << c.name;
    }
  }
}

TEST(Lora, MergingRoundsOnce) {
  const Problem problem = make_problem(cases()[0].config, lora_of(kAll));
  const std::string module = "model.layers.0.self_attn.q_proj";
  const Tensor weight = problem.params.at(module + ".weight").to(at::kBFloat16);
  const Tensor a = problem.params.at(module + ".lora_A.weight").to(at::kFloat);
  const Tensor b = problem.params.at(module + ".lora_B.weight").to(at::kFloat);
  const Tensor exact = weight.to(at::kDouble)
                           .add(b.to(at::kDouble).matmul(a.to(at::kDouble)), problem.lora->scale());
  const Tensor got = merged(weight, a, b, problem.lora->scale());
  EXPECT_EQ(got.scalar_type(), at::kBFloat16);
  // Half a unit in the last of 8 bits: what rounding to nearest reaches, and never passes.
  EXPECT_LE(got.to(at::kDouble).sub(exact).abs().div(exact.abs()).max().item<double>(), 0x1p-8);
  EXPECT_TRUE(weight.equal(problem.params.at(module + ".weight").to(at::kBFloat16)));
}

Problem with_dropout(const ModelConfig& config, double p, LoraScope scope = LoraScope::both) {
  LoraConfig lora = lora_of(kAll, scope);
  lora.dropout = p;
  Problem problem = make_problem(config, lora);
  problem.dropout = {.seed = 77, .step = 5, .sample_ids = {900, 31, 4'000'000'000'000}};
  return problem;
}

// The mask as the documentation defines it, element by element.
Tensor defined_mask(const Problem& problem, const std::string& module, std::size_t d,
                    std::int64_t features) {
  const double p = problem.lora->dropout;
  const std::int64_t length = problem.input.doc_start[d + 1] - problem.input.doc_start[d];
  const std::uint64_t stream = stream_id(fmt::format(
      "dropout/{}/{}/{}", module, problem.dropout->step, problem.dropout->sample_ids[d]));
  const Tensor mask = at::empty({length, features}, at::kDouble);
  for (std::int64_t e = 0; e < length * features; ++e) {
    const auto words =
        philox4x32_10(problem.dropout->seed, stream, static_cast<std::uint64_t>(e / 4));
    mask.data_ptr<double>()[e] =
        unit_uniform(words[static_cast<std::size_t>(e % 4)]) >= p ? 1 / (1 - p) : 0;
  }
  return mask;
}

TEST(LoraDropout, GradientsEqualAutogradUnderTheSameMask) {
  for (const auto& c : cases()) {
    Problem problem = with_dropout(c.config, 0.4);
    problem.input.lora_mask = [&](const std::string& module, std::size_t d, std::int64_t features) {
      return defined_mask(problem, module, d, features);
    };
    expect_gradients(problem, c.name + " dropout");
  }
}

TEST(LoraDropout, RecomputeLevelsAreBitEqual) {
  for (const auto& c : cases()) expect_equal_levels(with_dropout(c.config, 0.4));
}

TEST(LoraDropout, PackedEqualsDocumentsAlone) {
  for (const auto& c : cases()) {
    const Problem packed = with_dropout(c.config, 0.4);
    ModelRun together(packed, at::kDouble, Recompute::none);
    const double loss = together.loss();
    double sum = 0;
    std::map<std::string, Tensor> grads;
    for (std::size_t d = 0; d < 3; ++d) {
      const Problem one = test::one_document(packed, d);
      ModelRun alone(one, at::kDouble, Recompute::none);
      sum += alone.loss();
      for (const auto& unit : packed.units())
        for (const auto& param : unit.params)
          if (param.trained) {
            const Tensor grad = alone.weights().grad(param.name);
            grads[param.name] = d == 0 ? grad.clone() : grads[param.name].add(grad);
          }
    }
    const double bound = rounding_bound(at::kDouble, packed);
    EXPECT_WITHIN(std::abs(sum - loss), bound * loss) << c.name;
    for (const auto& [name, grad] : grads)
      EXPECT_WITHIN(relative_error(together.weights().grad(name), grad), bound)
          << c.name << " " << name;
  }
}

TEST(LoraDropout, MaskDependsOnStepSampleAndSeed) {
  const Problem problem = with_dropout(cases()[0].config, 0.4);
  Problem step = problem, sample = problem, seed = problem;
  ++step.dropout->step, ++sample.dropout->sample_ids[0], ++seed.dropout->seed;
  const double loss = ModelRun(problem, at::kDouble, Recompute::none).loss();
  for (const Problem* other : {&step, &sample, &seed})
    EXPECT_NE(ModelRun(*other, at::kDouble, Recompute::none).loss(), loss);
}

TEST(LoraDropout, EveryAdapterIsASite) {
  LoraConfig lora = lora_of({"q_proj", "down_proj"}, LoraScope::heads);
  EXPECT_TRUE(dropout_sites(cases()[0].config, lora).empty());
  lora.dropout = 0.4;
  EXPECT_EQ(dropout_sites(cases()[0].config, lora),
            (std::vector<std::string>{
                "model.layers.1.self_attn.q_proj", "model.layers.1.mlp.down_proj",
                "model.extra_heads.0.self_attn.q_proj", "model.extra_heads.0.mlp.down_proj",
                "model.extra_heads.1.self_attn.q_proj", "model.extra_heads.1.mlp.down_proj"}));
}

TEST(LoraDropout, ZeroAndEvaluationAreOff) {
  const ModelConfig config = cases()[0].config;
  const Problem zero = with_dropout(config, 0);
  Problem off = zero, evaluation = with_dropout(config, 0.4);
  off.dropout.reset(), evaluation.dropout.reset();
  ModelRun a(zero, at::kFloat, Recompute::none), b(off, at::kFloat, Recompute::none),
      c(evaluation, at::kFloat, Recompute::none);
  a.loss(), b.loss(), c.loss();
  expect_equal_grads(a, b);
  expect_equal_grads(a, c);
}

TEST(LoraDropout, KeepsTheRateItIsAsked) {
  const std::int64_t rows = 2000, features = 63;
  const std::vector<std::int32_t> document(rows, 0);
  std::vector<std::int32_t> position(rows);
  for (std::int32_t i = 0; i < rows; ++i) position[static_cast<std::size_t>(i)] = i;
  for (const double p : {0.0, 0.05, 0.3, 0.9}) {
    const Tensor out = at::empty({rows, features}, at::kDouble);
    kernels::dropout(at::ones({rows, features}, at::kDouble),
                     {.p = p,
                      .seed = 1,
                      .streams_D = at::tensor(std::vector<std::int64_t>{42}, at::kLong),
                      .document_N = at::tensor(document, at::kInt),
                      .position_N = at::tensor(position, at::kInt)},
                     out);
    const Tensor kept = out.gt(0).to(at::kDouble);
    EXPECT_TRUE(out.equal(kept.mul(1 / (1 - p))));
    // Of m means over n draws none is further out, but with a probability of 10^-9.
    const auto bound = [&](std::int64_t m, std::int64_t n) {
      return std::sqrt(2 * std::log(2e9 * static_cast<double>(m)) * p * (1 - p) /
                       static_cast<double>(n));
    };
    EXPECT_WITHIN(std::abs(kept.mean().item<double>() - (1 - p)), bound(1, rows * features));
    // Each feature and each row on its own, so that no column or row is favoured.
    const double worst_feature = kept.mean(0).sub(1 - p).abs().max().item<double>();
    const double worst_row = kept.mean(1).sub(1 - p).abs().max().item<double>();
    EXPECT_WITHIN(worst_feature, bound(features, rows));
    EXPECT_WITHIN(worst_row, bound(rows, features));
  }
}

std::int64_t count(const char* preset_name, std::int64_t rank,
                   const std::vector<std::string>& targets, LoraScope scope = LoraScope::both) {
  LoraConfig lora;
  lora.rank = rank, lora.targets = targets, lora.scope = scope;
  const ModelConfig config = preset(preset_name);
  return lora_parameters(config, checked(lora, config));
}

TEST(Lora, CountsOfKnownModels) {
  EXPECT_EQ(count("llama-mtp-7b", 8, kAttention), 8'388'608);
  EXPECT_EQ(count("llama-mtp-7b", 8, kAttention, LoraScope::trunk), 7'340'032);
  EXPECT_EQ(count("llama-mtp-7b", 8, kAttention, LoraScope::heads), 8'388'608 - 7'340'032);
  EXPECT_EQ(count("llama-mtp-7b", 64, kAll), 159'907'840);
  EXPECT_EQ(count("llama-3.1-8b", 64, kAll), 167'772'160);
  EXPECT_EQ(count("qwen3-0.6b", 16, kAll), 10'092'544);
  EXPECT_EQ(count("sheared-llama-2.7b", 32, kAll), 50'069'504);
  EXPECT_EQ(count("llama-mtp-7b", 1, kAttention), 32 * 32'768);
  EXPECT_EQ(count("llama-3.1-8b", 1, kAttention), 32 * 26'624);
  EXPECT_EQ(count("qwen3-0.6b", 1, kAttention), 28 * 10'240);
}

TEST(Lora, OnlyAdaptersAreCalledLora) {
  for (const auto& c : cases())
    for (const auto& unit : lora_units(c.config, lora_of(kAll)))
      for (const auto& param : unit.params)
        EXPECT_EQ(param.trained, param.name.find("lora_") != std::string::npos) << param.name;
}

TEST(Lora, TargetsInEitherScheme) {
  const ModelConfig config = cases()[0].config;
  EXPECT_EQ(checked(lora_of({"w2", "wo", "q_proj", "wq"}), config).targets,
            (std::vector<std::string>{"q_proj", "o_proj", "down_proj"}));
}

TEST(Lora, RefusesWhatItCannotDo) {
  const ModelConfig mtp = cases()[0].config, plain = cases()[1].config,
                    no_trunk = cases()[3].config;
  EXPECT_WMTP_ERROR(checked(lora_of({"wq", "wx", "lm_head"}), mtp), ErrorKind::config,
                    "wx, lm_head");
  EXPECT_WMTP_ERROR(checked(lora_of({}), mtp), ErrorKind::config, "no target");
  EXPECT_WMTP_ERROR(checked(lora_of(kAll, LoraScope::heads), plain), ErrorKind::config, "heads");
  EXPECT_WMTP_ERROR(checked(lora_of(kAll, LoraScope::trunk), no_trunk), ErrorKind::config, "trunk");
  LoraConfig lora = lora_of(kAll);
  lora.rank = 0;
  EXPECT_WMTP_ERROR(checked(lora, mtp), ErrorKind::config, "rank 0");
  lora.rank = 8, lora.dropout = 1;
  EXPECT_WMTP_ERROR(checked(lora, mtp), ErrorKind::config, "dropout 1");
  lora.dropout = 0, lora.alpha = 0;
  EXPECT_WMTP_ERROR(checked(lora, mtp), ErrorKind::config, "alpha 0");
}

}  // namespace
}  // namespace wmtp::model
