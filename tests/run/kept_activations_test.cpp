// What the plan counts per token of a block is what the block keeps, byte for byte.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "wmtp/model/local_weights.h"
#include "wmtp/model/presets.h"
#include "wmtp/model/transformer.h"
#include "wmtp/models/rope_frequencies.h"
#include "wmtp/models/synthetic_batch.h"
#include "wmtp/models/upload.h"
#include "wmtp/run/plan/block_memory.h"

namespace wmtp::run {
namespace {

constexpr std::int64_t kTokens = 48;

std::int64_t bytes_of(const model::BlockActivations& kept) {
  std::int64_t sum = 0;
  for (const Tensor* one :
       {&kept.x_ND, &kept.rstd_in_N, &kept.a_ND, &kept.qkv_NC, &kept.qk_NC, &kept.qk_rstd,
        &kept.attention.out_NHE, &kept.attention.lse, &kept.mid_MD, &kept.rstd_mid_M, &kept.m_MD,
        &kept.gate_up, &kept.product_MF})
    if (one->defined()) sum += static_cast<std::int64_t>(one->nbytes());
  return sum;
}

void expect_as_kept(const model::ModelConfig& config, model::Recompute level,
                    const std::optional<model::LoraConfig>& lora) {
  const auto units = lora ? model::lora_units(config, *lora) : model::model_units(config);
  const c10::Device cpu(c10::kCPU);
  model::LocalWeights weights(units, kFloat32, cpu, /*with_grads=*/true);
  model::Transformer model(config, weights, &weights,
                           {.recompute = level, .attention = {}, .lora = lora});
  const auto batch = models::synthetic_batch({1, kTokens, config.vocab_size, false}, 1, 0);
  const model::TrunkPass pass =
      model.forward_trunk(models::upload_tokens(batch.view(), static_cast<int>(config.n_future),
                                                models::rope_frequencies(config, kFloat32, cpu)));
  for (std::size_t i = 0; i < pass.blocks.size(); ++i)
    EXPECT_EQ(bytes_of(pass.blocks[i]),
              kTokens * activation_bytes(config, level, 4, read_inputs(units.at(1 + i))));
}

TEST(KeptActivations, AreThePlans) {
  const std::vector<std::vector<std::string>> sets{
      {"q_proj", "k_proj", "v_proj", "o_proj"}, {"o_proj"}, {"gate_proj", "up_proj", "down_proj"}};
  for (const char* name : {"micro", "micro-llama", "micro-qwen3"})
    for (const auto level :
         {model::Recompute::none, model::Recompute::light, model::Recompute::block}) {
      SCOPED_TRACE(fmt::format("{} {}", name, static_cast<int>(level)));
      const model::ModelConfig config = model::preset(name);
      expect_as_kept(config, level, std::nullopt);
      for (const auto& targets : sets) {
        model::LoraConfig lora;
        lora.targets = targets;
        expect_as_kept(config, level, lora);
      }
    }
}

}  // namespace
}  // namespace wmtp::run
