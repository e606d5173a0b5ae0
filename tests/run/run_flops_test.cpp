// Arithmetic per token that MFU counts, stage by stage, for the 7B shape at span 2048: whole
// numbers that double precision holds exactly.
#include "wmtp/run/plan/run_flops.h"

#include <gtest/gtest.h>

#include "support/tolerance.h"
#include "wmtp/model/presets.h"
#include "wmtp/run/plan/flops.h"

namespace wmtp::run {
namespace {

constexpr double kSpan = 2048;
// Of one block, forward: 2 (4 d^2 + 3 d f) and 2 S d; of one unembedding: 2 V d.
constexpr double kBlock = 2.0 * (4 * 4096.0 * 4096 + 3 * 4096.0 * 11008) + 2 * kSpan * 4096;
constexpr double kLogits = 2.0 * 32000 * 4096;

ModelPlan seven_b() {
  ModelPlan plan;
  plan.assemble.model = model::preset("llama-mtp-7b");
  return plan;
}

double counted(const ModelPlan& plan, bool reads_frozen = true) {
  return run_flops_per_token(plan, reads_frozen, kSpan);
}

TEST(RunFlops, Baseline) {
  EXPECT_WITHIN(std::abs(counted(seven_b()) / 1e9 - 43.612373), 1e-6);  // its last digit
  EXPECT_EQ(counted(seven_b()), 3 * (32 * kBlock + 4 * kLogits));
}

TEST(RunFlops, ExecutedCountsBlocksRunAgainAndNoLogitsWithoutTargets) {
  ModelPlan plan = seven_b();
  auto executed = [&](double targets) {
    return executed_flops_per_token(plan, true, kSpan, targets);
  };
  EXPECT_EQ(executed(4), counted(plan)) << "nothing again, every row has its targets";
  EXPECT_EQ(executed(1), 3 * 32 * kBlock + 3 * kLogits);
  plan.assemble.transformer.recompute = model::Recompute::block;
  EXPECT_EQ(executed(1), 4 * 32 * kBlock + 3 * kLogits);
  plan.assemble.frozen = true;
  EXPECT_EQ(executed(4), 32 * kBlock + 4 * kLogits);
}

TEST(RunFlops, CriticRunsItsTrunkOnce) {
  ModelPlan plan = seven_b();
  plan.predicts = false;
  plan.assemble.model = model::backbone(plan.assemble.model);
  plan.assemble.value_head = training::ValuePathOptions{};  // 4720641 parameters
  plan.assemble.frozen = true;
  EXPECT_EQ(counted(plan), 28 * kBlock + 6 * 4720641.0);
  plan.assemble.frozen = false;
  EXPECT_EQ(counted(plan), 3 * 28 * kBlock + 6 * 4720641.0);
}

TEST(RunFlops, AFrozenModelCountsOnceAndNotFromDisk) {
  ModelPlan plan = seven_b();
  FrozenPlan frozen;
  frozen.source.config = plan.assemble.model;
  plan.frozen = frozen;
  EXPECT_EQ(counted(plan) - counted(seven_b()), 29 * kBlock + kLogits);
  EXPECT_EQ(counted(plan, /*reads_frozen=*/false), counted(seven_b()));
  plan.frozen->options.use = training::FrozenModelOptions::Use::values;
  plan.frozen->source.value_head = model::ValueHeadType::mlp;
  EXPECT_EQ(counted(plan) - counted(seven_b()), 28 * kBlock);
}

// Vector V52, to its last digit.
TEST(Flops, OfTheSevenBillionModel) {
  constexpr double kLastDigit = 1e-6;
  const model::ModelConfig config = model::preset("llama-mtp-7b");
  model::LoraConfig lora;
  lora.rank = 64;
  lora.targets = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
  const double full = 3 * forward_flops_per_token(config, kSpan);
  EXPECT_WITHIN(std::abs(full / 1e9 - 43.612373), kLastDigit);
  const double adapters = static_cast<double>(lora_parameters(config, checked(lora, config)));
  EXPECT_WITHIN(std::abs(lora_flops_per_token(config, kSpan, adapters) / 1e9 - 30.571233),
                kLastDigit);
  EXPECT_WITHIN(std::abs(14500 * full / 989e12 - .639413), kLastDigit);
}

}  // namespace
}  // namespace wmtp::run
