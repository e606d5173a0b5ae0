#include "wmtp/weights/peft_config.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace wmtp::weights {
namespace {

PeftConfig parse_config(const std::string& text) {
  return parse_peft_config(parse_json(text, "a.json"), "a.json");
}

TEST(PeftConfig, ReadsWhatItWrites) {
  const PeftConfig config{.base_model = "org/base",
                          .rank = 16,
                          .alpha = 12.5,
                          .dropout = 0.25,
                          .rslora = true,
                          .targets = {"q_proj", "down_proj"},
                          .rank_pattern = {{"model.layers.0.self_attn.q_proj", 4}},
                          .alpha_pattern = {{"model.layers.0.self_attn.q_proj", 2.5}}};
  EXPECT_EQ(parse_config(peft_config_text(config)), config);
}

TEST(PeftConfig, WritesTheKeysOtherToolsNeed) {
  const PeftConfig config{.base_model = "b", .rank = 4, .alpha = 8, .targets = {"q_proj"}};
  const std::string text = peft_config_text(config);
  const Json json = parse_json(text, "ours");
  EXPECT_EQ(json.at("peft_type"), "LORA");
  EXPECT_EQ(json.at("task_type"), "CAUSAL_LM");
  EXPECT_TRUE(json.at("lora_alpha").is_number_integer());
  EXPECT_TRUE(json.at("modules_to_save").is_null());
  EXPECT_FALSE(json.contains("runtime_config"));
  EXPECT_EQ(text, json.dump(2) + "\n");
}

TEST(PeftConfig, HasPeftsDefaults) {
  PeftConfig defaults;
  defaults.targets = {"q_proj", "v_proj"};
  EXPECT_EQ(parse_config(R"({"peft_type": "LORA"})"), defaults);
}

TEST(PeftConfig, AcceptsPatternsUnknownAndUnsetKeys) {
  const PeftConfig config = parse_config(R"({"peft_type": "LORA", "target_modules": "all-linear",
      "use_dora": false, "rank_pattern": {}, "modules_to_save": [], "lora_bias": null,
      "something_new": {"x": 1}, "init_lora_weights": "gaussian"})");
  EXPECT_TRUE(config.targets.empty());
  EXPECT_EQ(config.target_pattern, "all-linear");
}

TEST(PeftConfig, RefusesByName) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"("use_dora": true)", "use_dora true"},
      {R"("bias": "lora_only")", "bias"},
      {R"("rank_pattern": {"q_proj": 0})", "rank_pattern"},
      {R"("rank_pattern": {"q_proj": 2.5})", "rank_pattern"},
      {R"("alpha_pattern": {"q_proj": -4})", "alpha_pattern"},
      {R"("alpha_pattern": ["q_proj"])", "alpha_pattern"},
      {R"("modules_to_save": ["lm_head"])", "modules_to_save [\"lm_head\"]"},
      {R"("fan_in_fan_out": true)", "fan_in_fan_out"},
      {R"("lora_bias": true)", "lora_bias"},
      {R"("use_qalora": true)", "use_qalora"},
      {R"("layer_replication": [[0, 2]])", "layer_replication"},
      {R"("target_parameters": ["experts"])", "target_parameters"},
      {R"("trainable_token_indices": [1])", "trainable_token_indices"},
      {R"("layers_to_transform": ["0"])", "layers_to_transform"},
      {R"("layers_to_transform": [0], "target_modules": ".*q_proj")", "layers_to_transform"},
      {R"("layers_pattern": "layers")", "layers_pattern"},
      {R"("init_lora_weights": "pissa_niter_4")", "init_lora_weights"},
      {R"("r": 0)", "r 0"},
      {R"("r": 2.5)", "r 2.5"},
      {R"("lora_alpha": "x")", "lora_alpha"},
      {R"("lora_alpha": 0)", "lora_alpha"},
      {R"("lora_dropout": 1)", "lora_dropout"},
      {R"("use_rslora": 1)", "use_rslora"},
      {R"("target_modules": 3)", "target_modules"},
      {R"("target_modules": ["q_proj", 1])", "target_modules"},
  };
  for (const auto& [key, part] : cases)
    EXPECT_WMTP_ERROR(parse_config(R"({"peft_type": "LORA", )" + key + "}"), ErrorKind::config,
                      part);
  EXPECT_WMTP_ERROR(parse_config(R"({"peft_type": "IA3"})"), ErrorKind::config,
                    "peft_type \"IA3\"");
  EXPECT_WMTP_ERROR(parse_config("{}"), ErrorKind::config, "peft_type is missing");
  EXPECT_WMTP_ERROR(parse_config("[]"), ErrorKind::data, "not a JSON object");
}

}  // namespace
}  // namespace wmtp::weights
