#include "wmtp/model/model_config.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/tolerance.h"
#include "wmtp/model/hf_config.h"
#include "wmtp/model/meta_params.h"
#include "wmtp/model/presets.h"

namespace wmtp::model {
namespace {

Json llama_json() {
  return parse_json(R"({"model_type": "llama", "vocab_size": 512, "hidden_size": 128,
      "intermediate_size": 352, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5})",
                    "test");
}

ModelConfig read(const Json& json) {
  return parse_hf_config(json, "config.json").model;
}

TEST(InvFreq, Llama31HasThePublishedValues) {
  const auto frequencies = inv_freq(preset("llama-3.1-8b"));
  const std::pair<int, double> expected[] = {{0, 1},
                                             {1, 0.8146172},
                                             {28, 0.003211446},
                                             {29, 0.002166571},
                                             {31, 8.567515e-4},
                                             {34, 1.785078e-4},
                                             {35, 9.556212e-5},
                                             {63, 3.068926e-7}};
  ASSERT_EQ(frequencies.size(), 64u);
  for (const auto& [j, value] : expected) {
    const double last_digit = std::pow(10, std::floor(std::log10(value)) - 6);
    EXPECT_WITHIN(std::abs(frequencies[static_cast<std::size_t>(j)] - value), last_digit) << j;
  }
}

TEST(Validate, ListsEverythingAtOnce) {
  ModelConfig config = preset("micro");
  config.num_kv_heads = 3;
  config.head_dim = 33;
  config.n_future = 7;
  config.norm_eps = 0;
  for (const char* part : {"4 heads are no multiple of 3", "head_dim is 33",
                           "6 blocks are fewer than 7", "rms_norm_eps is 0"})
    EXPECT_WMTP_ERROR(validate(config, "x"), ErrorKind::config, part);
}

TEST(AddedHeads, KeepTheLayersAndAddBlocks) {
  const ModelConfig plain = preset("micro-llama");
  const ModelConfig mtp = with_added_heads(plain, 4);
  EXPECT_EQ(mtp.num_layers(), plain.num_layers());
  EXPECT_EQ(mtp.num_extra_heads(), 3);
  EXPECT_EQ(mtp.num_trunk_blocks(), plain.num_blocks - 1);
  EXPECT_EQ(plain.num_trunk_blocks(), plain.num_blocks);
  EXPECT_EQ(mtp.architecture, Architecture::llama_mtp);
}

TEST(HfConfig, TakesTransformersDefaults) {
  const ModelConfig config = read(llama_json());
  EXPECT_EQ(config.head_dim, 32);
  EXPECT_EQ(config.rope, (RopeConfig{10000, {}}));
  EXPECT_EQ(config.bos_id, 1);
  EXPECT_EQ(config.eos_ids, std::vector<std::int64_t>{2});
  EXPECT_FALSE(config.tied);
  Json json = llama_json();
  json.erase("num_key_value_heads");
  EXPECT_EQ(read(json).num_kv_heads, 4);
  json["model_type"] = "qwen3";
  EXPECT_WMTP_ERROR(read(json), ErrorKind::config, "num_key_value_heads is missing");
  json["num_key_value_heads"] = 2;
  EXPECT_EQ(read(json).head_dim, 128);
  EXPECT_TRUE(read(json).qk_norm);
  EXPECT_FALSE(read(json).bos_id);
}

TEST(HfConfig, RefusesByKeyWhatItCannotCompute) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"attention_bias": true})", "attention_bias is true"},
      {R"({"mlp_bias": true})", "mlp_bias is true"},
      {R"({"use_sliding_window": true})", "use_sliding_window is true"},
      {R"({"hidden_act": "gelu"})", "hidden_act is \"gelu\""},
      {R"({"layer_types": ["full_attention", "sliding_attention"]})",
       "layer_types holds \"sliding"},
      {R"({"quantization_config": 4})", "quantization_config is 4, must be an object"},
      {R"({"quantization_config": {"bits": 4}})", "quantization_config.load_in_4bit is not true"},
      {R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})",
       "quantization_config.quant_method is \"gptq\""},
      {R"({"quantization_config": {"load_in_8bit": true, "load_in_4bit": true}})",
       "quantization_config.load_in_8bit is true"},
      {R"({"quantization_config": {"load_in_4bit": true}})",
       "quantization_config.bnb_4bit_quant_type is \"fp4\""},
      {R"({"quantization_config": {"load_in_4bit": true, "bnb_4bit_quant_type": "nf4",
           "bnb_4bit_quant_storage": "bfloat16"}})",
       "quantization_config.bnb_4bit_quant_storage is \"bfloat16\""},
      {R"({"model_type": "mistral"})", "model_type is \"mistral\""},
      {R"({"rope_scaling": {"rope_type": "yarn", "factor": 4}})",
       "rope_scaling.rope_type is \"yarn\""},
      {R"({"rope_scaling": {"type": "linear", "factor": 4}})", "rope_scaling.type is \"linear\""},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 4}})", "low_freq_factor is missing"},
      {R"({"rope_parameters": {"full_attention": {"rope_theta": 1e4}}})", "keyed by layer type"},
      {R"({"partial_rotary_factor": 0.5})", "partial_rotary_factor is 0.5"},
      {R"({"rope_parameters": {"partial_rotary_factor": 0.5}})", "rope_parameters.partial_rotary"},
      {R"({"hidden_size": "128"})", "hidden_size is \"128\", must be an integer"},
      {R"({"hidden_size": 128.0})", "hidden_size is 128.0, must be an integer"},
      {R"({"hidden_size": null})", "hidden_size is missing"},
      {R"({"vocab_size": 99999999999})", "vocab_size is 99999999999"},
      {R"({"rope_scaling": [1]})", "rope_scaling must be an object"},
      {R"({"eos_token_id": [1, "2"]})", "eos_token_id holds \"2\""},
  };
  for (const auto& [change, fact] : cases) {
    Json json = llama_json();
    json.update(parse_json(change, "change"));
    EXPECT_WMTP_ERROR(read(json), ErrorKind::config, fact);
  }
}

TEST(HfConfig, SaysThatWeightsAreStoredInNf4) {
  Json json = llama_json();
  EXPECT_FALSE(parse_hf_config(json, "x").stored_nf4);
  json["quantization_config"] = {{"load_in_4bit", true}, {"bnb_4bit_quant_type", "nf4"}};
  EXPECT_TRUE(parse_hf_config(json, "x").stored_nf4);  // as transformers before 4.32 wrote it
  json["quantization_config"].update({{"quant_method", "bitsandbytes"},
                                      {"load_in_8bit", false},
                                      {"bnb_4bit_quant_storage", "uint8"},
                                      {"bnb_4bit_use_double_quant", true}});
  EXPECT_TRUE(parse_hf_config(json, "x").stored_nf4);
}

TEST(HfConfig, ReadsHeadsInBothForms) {
  Json json = llama_json();
  json["n_future_tokens"] = 3;
  EXPECT_EQ(read(json).num_blocks, 4);
  EXPECT_EQ(read(json).num_layers(), 2);
  EXPECT_EQ(read(json).architecture, Architecture::llama_mtp);
  json.erase("n_future_tokens");
  json["wmtp"] = {
      {"n_future_tokens", 3}, {"mtp_file", "mtp_heads.safetensors"}, {"value_head", "mlp"}};
  const HfConfig config = parse_hf_config(json, "x");
  EXPECT_EQ(config.model.num_blocks, 6);
  EXPECT_EQ(config.model.num_layers(), 4);
  EXPECT_EQ(config.extras.mtp_file, "mtp_heads.safetensors");
  EXPECT_EQ(config.extras.value_head, ValueHeadType::mlp);
}

TEST(HfConfig, EosMayBeAListAndMinusOneIsNone) {
  Json json = llama_json();
  json["eos_token_id"] = {128001, 128008, 128009};
  json["pad_token_id"] = -1;
  EXPECT_EQ(read(json).eos_ids, (std::vector<std::int64_t>{128001, 128008, 128009}));
  EXPECT_FALSE(read(json).pad_id);
}

TEST(HfConfig, WhatIsWrittenReadsBackEqual) {
  for (const std::string& name : preset_names()) {
    ModelConfig config = preset(name);
    config.dtype = "bfloat16";
    const ExportExtras extras{config.n_future > 1 ? "mtp_heads.safetensors" : "", {}};
    const auto text = hf_config_text(config, "bfloat16", extras);
    const HfConfig back = parse_hf_config(parse_json(text, name), name);
    EXPECT_EQ(back.model, config) << name << text;
    EXPECT_EQ(back.extras.mtp_file, extras.mtp_file);
  }
  EXPECT_EQ(generation_config_text(preset("qwen3-0.6b")),
            "{\n  \"bos_token_id\": 151643,\n  \"eos_token_id\": 151645\n}\n");
}

TEST(MetaParams, DerivesTheWidthOfTheFfn) {
  EXPECT_EQ(meta_ffn_dim(4096, 256), 11008);
  EXPECT_EQ(meta_ffn_dim(4096, 1024, 1.3), 14336);
  EXPECT_EQ(meta_ffn_dim(512, 256), 1536);
}

TEST(MetaParams, ReadsTheReleaseOfLlamaMtp) {
  const Json json = parse_json(R"({"dim": 4096, "n_layers": 32, "n_heads": 32, "multiple_of": 256,
      "norm_eps": 1e-05, "vocab_size": -1, "n_future_tokens": 4, "intermediate_size": 1})",
                               "params");
  EXPECT_EQ(parse_meta_params(json, "params.json", 32000), preset("llama-mtp-7b"));
  EXPECT_EQ(parse_meta_params(Json{{"model", json}}, "params.json", 32000), preset("llama-mtp-7b"));
  EXPECT_WMTP_ERROR(parse_meta_params(json, "params.json"), ErrorKind::config, "vocab_size is -1");
}

TEST(MetaParams, ReadsLlama31) {
  const Json json = parse_json(R"({"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8,
      "vocab_size": 128256, "ffn_dim_multiplier": 1.3, "multiple_of": 1024, "norm_eps": 1e-05,
      "rope_theta": 500000.0, "use_scaled_rope": true})",
                               "params");
  EXPECT_EQ(parse_meta_params(json, "params.json"), preset("llama-3.1-8b"));
}

TEST(MetaParams, RefusesNonsense) {
  for (const char* change :
       {R"({"dim": 0})", R"({"multiple_of": 0})", R"({"ffn_dim_multiplier": -1})",
        R"({"n_heads": 0})", R"({"dim": 99999999})"}) {
    Json json = parse_json(R"({"dim": 64, "n_layers": 2, "n_heads": 2, "vocab_size": 8})", "p");
    json.update(parse_json(change, "change"));
    EXPECT_WMTP_ERROR(parse_meta_params(json, "p"), ErrorKind::config, "must be");
  }
}

}  // namespace
}  // namespace wmtp::model
