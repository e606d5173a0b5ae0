// The rules of PEFT for which modules are adapted; tests/parity/test_peft_patterns.py has PEFT
// itself.
#include "wmtp/weights/peft/peft_targets.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace wmtp::weights {
namespace {

constexpr const char* kQuery = "model.layers.1.self_attn.q_proj";
constexpr const char* kUp = "model.layers.12.mlp.up_proj";

PeftTargets targets_of(const std::string& keys) {
  const Json json = parse_json(R"({"peft_type": "LORA", )" + keys + "}", "a.json");
  return {parse_peft_config(json, "a.json"), "a.json"};
}

TEST(PeftTargets, NamesAreEndsFromADotOn) {
  const PeftTargets targets = targets_of(R"("target_modules": ["q_proj", "mlp.up_proj", "proj"])");
  EXPECT_TRUE(targets.adapts(kQuery));
  EXPECT_TRUE(targets.adapts(kUp));
  EXPECT_FALSE(targets.adapts("model.layers.1.self_attn.k_proj"));
}

TEST(PeftTargets, APatternFitsTheWholeName) {
  const PeftTargets targets = targets_of(R"("target_modules": "model\\.layers\\.1.*(q|up)_proj")");
  EXPECT_TRUE(targets.adapts(kQuery));
  EXPECT_TRUE(targets.adapts(kUp));
  EXPECT_FALSE(targets.adapts(std::string(kQuery) + "x"));
  EXPECT_TRUE(targets_of(R"("target_modules": "ALL-linear")").adapts(kUp));
}

TEST(PeftTargets, LayersAreTheFirstNumberOfTheName) {
  const PeftTargets targets =
      targets_of(R"("target_modules": ["q_proj", "up_proj"], "layers_to_transform": 12)");
  EXPECT_FALSE(targets.adapts(kQuery));
  EXPECT_TRUE(targets.adapts(kUp));
  const std::string named = R"("target_modules": ["q_proj"], "layers_to_transform": [1])";
  EXPECT_TRUE(targets_of(named + R"(, "layers_pattern": ["h", "layers"])").adapts(kQuery));
  EXPECT_FALSE(targets_of(named + R"(, "layers_pattern": "h")").adapts(kQuery));
  // A full name counts in any layer.
  EXPECT_TRUE(targets_of(R"("target_modules": ["model.layers.1.self_attn.q_proj"],
                            "layers_to_transform": [7])")
                  .adapts(kQuery));
}

TEST(PeftTargets, ExcludedModulesAreLeftOut) {
  const std::string both = R"("target_modules": ["q_proj", "up_proj"], )";
  EXPECT_FALSE(targets_of(both + R"("exclude_modules": ["q_proj"])").adapts(kQuery));
  const PeftTargets targets = targets_of(both + R"("exclude_modules": ".*\\.12\\..*")");
  EXPECT_TRUE(targets.adapts(kQuery));
  EXPECT_FALSE(targets.adapts(kUp));
}

TEST(PeftTargets, TheFirstPatternThatFitsTheEndGivesRankAndAlpha) {
  const PeftTargets targets = targets_of(
      R"("r": 8, "lora_alpha": 16, "rank_pattern": {"layers\\.1\\..*": 2, "q_proj": 4},
         "alpha_pattern": {"proj": 1, "^model.*up_proj": 3.5})");
  EXPECT_EQ(targets.rank(kQuery), 2);
  EXPECT_EQ(targets.rank("model.layers.2.self_attn.q_proj"), 4);
  EXPECT_EQ(targets.rank(kUp), 8);
  EXPECT_EQ(targets.alpha(kQuery), 16);
  EXPECT_EQ(targets.alpha(kUp), 3.5);
}

TEST(PeftTargets, WhatPythonReadsOtherwiseIsRefused) {
  for (const char* pattern :
       {R"(\\pL)", "(?i)x", "(?R)", "(", R"(\\Qx\\E)", "(*ACCEPT)", R"(\\hq)"})
    EXPECT_WMTP_ERROR(targets_of(std::string(R"("target_modules": ")") + pattern + "\""),
                      ErrorKind::config, "target_modules");
  EXPECT_TRUE(targets_of(R"("target_modules": ".*[[:]?q_proj\\Z")").adapts(kQuery));
  EXPECT_TRUE(targets_of(R"("target_modules": ".{,80}q_proj")").adapts(kQuery));
}

TEST(PeftTargets, RunawayPatternsEndAtTheLimit) {
  const PeftTargets targets = targets_of(R"("target_modules": "(.+.+)+y")");
  EXPECT_WMTP_ERROR(targets.adapts("model.layers.1.self_attn.q_proj"), ErrorKind::config,
                    "gave up");
}

}  // namespace
}  // namespace wmtp::weights
