// Vectors V01, V05 and V06 (targets per head), V52 and V53 (arithmetic of a model).
#include <gtest/gtest.h>

#include "support/tolerance.h"
#include "wmtp/model/lora.h"
#include "wmtp/model/presets.h"
#include "wmtp/training/flops.h"
#include "wmtp/training/upload.h"

namespace wmtp::training {
namespace {

std::vector<std::int64_t> targets(const std::vector<std::int32_t>& doc_start,
                                  const std::vector<std::uint8_t>& mask, int num_heads) {
  const std::vector<std::int32_t> zeros(mask.size(), 0);
  return count_targets({zeros, zeros, doc_start, mask}, num_heads);
}
using Counts = std::vector<std::int64_t>;

TEST(StageVectors, V01V05V06TargetsOfHeads) {
  EXPECT_EQ(targets({0, 6}, {0, 0, 1, 1, 1, 0}, 3), (Counts{3, 3, 2}));
  EXPECT_EQ(targets({0, 4, 7}, {0, 1, 1, 1, 0, 1, 1}, 2), (Counts{5, 3}));
  EXPECT_EQ(targets({0, 2}, {0, 1}, 3), (Counts{1, 0, 0}));
}

TEST(StageVectors, V52) {
  constexpr double kLastDigit = 1e-6;  // of the vectors
  const model::ModelConfig config = model::preset("llama-mtp-7b");
  model::LoraConfig lora;
  lora.rank = 64;
  lora.targets = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
  const double full = 3 * forward_flops_per_token(config, 2048);
  EXPECT_WITHIN(std::abs(full / 1e9 - 43.612373), kLastDigit);
  const double adapters = static_cast<double>(lora_parameters(config, checked(lora, config)));
  EXPECT_WITHIN(std::abs(lora_flops_per_token(config, 2048, adapters) / 1e9 - 30.571233),
                kLastDigit);
  EXPECT_WITHIN(std::abs(14500 * full / 989e12 - .639413), kLastDigit);
}

}  // namespace
}  // namespace wmtp::training
