#include "wmtp/model/weight_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "support/expect_error.h"
#include "wmtp/model/lora.h"
#include "wmtp/model/presets.h"

namespace wmtp::model {
namespace {

std::vector<std::string> names(const layout::UnitSpec& unit) {
  std::vector<std::string> list;
  for (const auto& param : unit.params) list.push_back(param.name);
  return list;
}

TEST(ModelUnits, RootFirstThenTrunkThenHeads) {
  const auto units =
      model_units(preset("micro"));  // 6 blocks, 4 heads: trunk 0 1, head 1 = layer 2
  std::vector<std::string> order;
  for (const auto& unit : units) order.push_back(unit.name);
  EXPECT_EQ(order, (std::vector<std::string>{"root", "model.layers.0", "model.layers.1",
                                             "model.layers.2", "model.extra_heads.0",
                                             "model.extra_heads.1", "model.extra_heads.2"}));
}

TEST(ModelUnits, ParametersOfABlockAreInBufferOrder) {
  const auto units = model_units(preset("micro-qwen3"));
  const std::string at = "model.layers.0.";
  EXPECT_EQ(names(units[1]),
            (std::vector<std::string>{
                at + "self_attn.q_proj.weight", at + "self_attn.k_proj.weight",
                at + "self_attn.v_proj.weight", at + "self_attn.o_proj.weight",
                at + "mlp.gate_proj.weight", at + "mlp.up_proj.weight", at + "mlp.down_proj.weight",
                at + "input_layernorm.weight", at + "post_attention_layernorm.weight",
                at + "self_attn.q_norm.weight", at + "self_attn.k_norm.weight"}));
  EXPECT_EQ(units[1].params[0].shape, (std::vector<std::int64_t>{256, 128}));
  EXPECT_EQ(units[1].params[1].shape, (std::vector<std::int64_t>{128, 128}));
  EXPECT_EQ(units[1].params[3].shape, (std::vector<std::int64_t>{128, 256}));
}

TEST(ModelUnits, TiedModelsHaveNoUnembedding) {
  EXPECT_EQ(names(model_units(preset("micro-qwen3"))[0]),
            (std::vector<std::string>{"model.embed_tokens.weight", "model.norm.weight"}));
  EXPECT_EQ(names(model_units(preset("micro"))[0]),
            (std::vector<std::string>{"model.embed_tokens.weight", "lm_head.weight",
                                      "model.norm.weight"}));
}

TEST(ModelUnits, TheSevenBillionMtpModelHas291Tensors) {
  std::size_t count = 0;
  for (const auto& unit : model_units(preset("llama-mtp-7b"))) count += unit.params.size();
  EXPECT_EQ(count, 291u);
}

TEST(Quantized, FrozenProjectionsOfAllBlocksAndNothingElse) {
  const ModelConfig config = preset("micro");
  LoraConfig lora;
  lora.scope = LoraScope::trunk, lora.train_heads = true;
  std::vector<layout::UnitSpec> units = lora_units(config, lora);
  EXPECT_TRUE(quantize_projections(units).empty());
  for (const layout::UnitSpec& unit : units)
    for (const layout::ParamSpec& param : unit.params)
      EXPECT_EQ(param.quantized, !param.trained && param.name.ends_with("_proj.weight"))
          << param.name;
  EXPECT_TRUE(units[1].params[0].quantized);
  EXPECT_FALSE(units.back().params[0].quantized) << "head blocks are trained whole";
}

// Rows of 30: v begins inside a block of 64, and gate has no whole number of them.
TEST(Quantized, MatricesOfPartialBlocksAreLeftAndNamed) {
  std::vector<layout::UnitSpec> units{{"block",
                                       {{"q_proj.weight", {64, 30}, false},
                                        {"k_proj.weight", {33, 30}, false},
                                        {"v_proj.weight", {32, 30}, false},
                                        {"norm.weight", {64}, false}}}};
  EXPECT_THAT(quantize_projections(units),
              ::testing::ElementsAre("k_proj.weight", "v_proj.weight"));
  EXPECT_TRUE(units[0].params[0].quantized);
  EXPECT_FALSE(units[0].params[1].quantized || units[0].params[2].quantized ||
               units[0].params[3].quantized);
}

TEST(ValueHead, CountsAreThoseOfTheDefinition) {
  EXPECT_EQ(value_head_unit(ValueHeadType::mlp, 2560).numel(), 1'844'481);
  EXPECT_EQ(value_head_unit(ValueHeadType::mlp, 4096).numel(), 4'720'641);
  EXPECT_EQ(value_head_unit(ValueHeadType::linear, 4096).numel(), 4097);
  EXPECT_EQ(names(value_head_unit(ValueHeadType::sigmoid, 8)),
            (std::vector<std::string>{"value_head.linear.weight", "value_head.linear.bias"}));
  EXPECT_EQ(value_head_type("sigmoid"), ValueHeadType::sigmoid);
  EXPECT_WMTP_ERROR(value_head_type("conv"), ErrorKind::config, "conv");
}

// Meta's names of a model with that many layers and extra heads.
std::vector<std::string> meta_names(std::int64_t num_layers, std::int64_t num_extra_heads) {
  std::vector<std::string> names = {"tok_embeddings.weight", "norm.weight", "output.weight"};
  const auto add_block = [&names](const std::string& block) {
    for (const char* part :
         {"attention.wq", "attention.wk", "attention.wv", "attention.wo", "feed_forward.w1",
          "feed_forward.w2", "feed_forward.w3", "attention_norm", "ffn_norm"})
      names.push_back(block + "." + part + ".weight");
  };
  for (std::int64_t i = 0; i < num_layers; ++i) add_block("layers." + std::to_string(i));
  for (std::int64_t i = 0; i < num_extra_heads; ++i) add_block("extra_heads." + std::to_string(i));
  return names;
}

TEST(MetaNames, NameEveryParameterOnce) {
  const ModelConfig micro = preset("micro");
  std::set<std::string> mapped, params;
  for (const std::string& meta : meta_names(micro.num_layers(), micro.num_extra_heads())) {
    const auto name = from_meta_name(meta);
    ASSERT_TRUE(name) << meta;
    EXPECT_TRUE(mapped.insert(*name).second) << meta;
  }
  for (const auto& unit : model_units(micro))
    for (const auto& param : unit.params) params.insert(param.name);
  EXPECT_EQ(mapped, params);
  EXPECT_FALSE(from_meta_name("layers.0.attention.wx.weight"));
}

TEST(MetaNames, OnlyQueryAndKeyRowsAreInterleaved) {
  const auto map = meta_name_map(preset("micro"));
  auto head_dim = [&](const char* name) { return map(name)->interleaved_head_dim; };
  EXPECT_EQ(head_dim("layers.0.attention.wq.weight"), 32);
  EXPECT_EQ(head_dim("extra_heads.1.attention.wk.weight"), 32);
  EXPECT_EQ(head_dim("layers.0.attention.wq.lora_B.weight"), 32);
  EXPECT_EQ(head_dim("layers.0.attention.wq.lora_A.weight"), 0);
  EXPECT_EQ(head_dim("layers.0.attention.wv.weight"), 0);
  EXPECT_EQ(head_dim("layers.0.attention.wo.weight"), 0);
  EXPECT_EQ(map("layers.0.attention.wq.lora_B.weight")->name,
            "model.layers.0.self_attn.q_proj.lora_B.weight");
}

TEST(MetaNames, OthersAreUnknown) {
  for (const char* name :
       {"rope.freqs", "layers.x.attention.wq.weight", "layers.0.attention.wz.weight",
        "model.layers.0.self_attn.q_proj.weight", "layers.0.attention.wq.bias", "layers.0",
        "layers.00000001.ffn_norm.weight", ""})
    EXPECT_FALSE(from_meta_name(name)) << name;
}

TEST(RotaryRows, HalfSplitRowsAreThePairsOfInterleavedOnes) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < 12; ++row) rows.push_back(layout::interleaved_row(row, 6));
  EXPECT_EQ(rows, (std::vector<std::int64_t>{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}));
}

TEST(ShortNames, EitherSchemeIsUnderstood) {
  EXPECT_EQ(projection_name("wq"), "q_proj");
  EXPECT_EQ(projection_name("w1"), "gate_proj");
  EXPECT_EQ(projection_name("w2"), "down_proj");
  EXPECT_EQ(projection_name("w3"), "up_proj");
  EXPECT_EQ(projection_name("o_proj"), "o_proj");
  EXPECT_FALSE(projection_name("attention_norm"));
  EXPECT_FALSE(projection_name("input_layernorm"));
  EXPECT_FALSE(projection_name("wx"));
}

TEST(PeftNames, CarryThePrefixOfTheBaseModel) {
  const std::string ours = "model.layers.0.self_attn.q_proj.lora_A.weight";
  EXPECT_EQ(to_peft_name(ours), "base_model.model." + ours);
  EXPECT_EQ(from_peft_name(to_peft_name(ours)), ours);
  EXPECT_FALSE(from_peft_name(ours));
}

}  // namespace
}  // namespace wmtp::model
