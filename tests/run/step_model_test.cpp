// Shapes as predict_step gets them hold all of the model: its parameters and its arithmetic.
#include "wmtp/run/plan/step_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/tolerance.h"
#include "wmtp/model/presets.h"
#include "wmtp/run/plan/flops.h"

namespace wmtp::run {
namespace {

ShapeTiming timing_of(const char* preset) {
  return {.model = model::preset(preset),
          .tokens = 4096,
          .span = 1024,
          .flops_per_s = 5e14,
          .update_s_per_parameter = 7e-12};
}

TEST(StepModel, HoldsAllParametersAndAllArithmetic) {
  for (const char* preset : {"llama-mtp-7b", "qwen3-0.6b", "llama-3.1-8b"}) {
    const ShapeTiming timing = timing_of(preset);
    const StepModel model = step_model(timing, Sharding::full_shard(8));
    double gathered = 0, reduced = 0;
    for (const UnitModel& unit : model.units) {
      gathered += unit.gather_bytes;
      reduced += unit.reduce_bytes;
    }
    const auto parameters = static_cast<double>(timing.model.total_parameters());
    EXPECT_EQ(gathered, 2 * parameters) << preset;
    EXPECT_EQ(reduced, 4 * parameters) << preset;
    const double seconds = 3 * forward_flops_per_token(timing.model, timing.span) * timing.tokens /
                               timing.flops_per_s +
                           timing.update_s_per_parameter * parameters / 8;
    EXPECT_WITHIN(std::abs(predict_step(model).compute_s / seconds - 1), 1e-13) << preset;
  }
}

TEST(StepModel, HeadsComeLastAndHaveTheLosses) {
  const StepModel model = step_model(timing_of("llama-mtp-7b"), Sharding::full_shard(8));
  ASSERT_EQ(model.units.size(), 33u);
  EXPECT_TRUE(model.units.front().kept);
  for (std::size_t u = 1; u < model.units.size(); ++u) EXPECT_EQ(model.units[u].head, u > 28) << u;
  EXPECT_GT(model.units.back().forward_s, model.units[1].forward_s);
  EXPECT_EQ(model.loss_s, 0);
  EXPECT_GT(step_model(timing_of("qwen3-0.6b"), Sharding::full_shard(8)).loss_s, 0);
}

TEST(StepModel, RecomputationRunsTheTrunkOnceMore) {
  ShapeTiming timing = timing_of("llama-mtp-7b");
  const double once = predict_step(step_model(timing, Sharding::no_shard(1))).compute_s;
  timing.recomputes_blocks = true;
  const StepModel again = step_model(timing, Sharding::no_shard(1));
  const double trunk_s = 28 * again.units[1].forward_s;
  EXPECT_WITHIN(std::abs(predict_step(again).compute_s / (once + trunk_s) - 1), 1e-13);
}

}  // namespace
}  // namespace wmtp::run
