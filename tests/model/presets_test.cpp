#include "wmtp/model/presets.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "wmtp/model/weight_names.h"

namespace wmtp::model {
namespace {

// Published or hand-counted totals; tied weights once.
const std::pair<const char*, std::int64_t> kTotals[] = {
    {"micro", 1'238'656},
    {"micro-llama", 869'504},
    {"micro-qwen3", 1'050'240},
    {"small", 60'039'680},
    {"qwen3-0.6b", 596'049'920},
    {"qwen3-1.7b", 1'720'574'976},
    {"qwen3-4b", 4'022'468'096},
    {"qwen3-8b", 8'190'735'360},
    {"qwen3-14b", 14'768'307'200},
    {"qwen3-32b", 32'762'123'264},
    {"llama-2-7b", 6'738'415'616},
    {"llama-2-13b", 13'015'864'320},
    {"llama-2-70b", 68'976'648'192},
    {"llama-mtp-7b", 6'738'415'616},
    {"llama-3.1-8b", 8'030'261'248},
    {"llama-3.1-70b", 70'553'706'496},
    {"llama-3.2-1b", 1'235'814'400},
    {"llama-3.2-3b", 3'212'749'824},
    {"sheared-llama-2.7b", 2'701'560'320},
};

TEST(Presets, CountsAreExactAndEqualTheSumOfTheUnits) {
  EXPECT_EQ(preset_names().size(), std::size(kTotals));
  for (const auto& [name, total] : kTotals) {
    const ModelConfig config = preset(name);
    EXPECT_EQ(config.total_parameters(), total) << name;
    std::int64_t sum = 0;
    for (const auto& unit : model_units(config)) sum += unit.numel();
    EXPECT_EQ(sum, total) << name;
    EXPECT_NO_THROW(validate(config, name));
  }
}

TEST(Presets, BlocksHaveTheirKnownSizes) {
  EXPECT_EQ(preset("llama-mtp-7b").block_parameters(), 202'383'360);
  EXPECT_EQ(preset("llama-2-7b").block_parameters(), 202'383'360);
  EXPECT_EQ(preset("llama-3.1-8b").block_parameters(), 218'112'000);
  EXPECT_EQ(preset("qwen3-0.6b").block_parameters(), 15'730'944);
}

TEST(Presets, AWrongNameGetsTheNearest) {
  EXPECT_WMTP_ERROR(preset("qwen3-0.6"), ErrorKind::config, "did you mean qwen3-0.6b?");
  EXPECT_WMTP_ERROR(preset("gpt-oss-nothing-like-it"), ErrorKind::config, "known are micro");
}

}  // namespace
}  // namespace wmtp::model
