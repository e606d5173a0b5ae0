// Predicted steps against what can be said of them without a simulation. A link of one byte a
// second and dyadic sizes: sums are exact.
#include "wmtp/run/plan/predict_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/tolerance.h"

namespace wmtp::run {
namespace {

constexpr int kBlocks = 7, kUnits = 1 + kBlocks;
constexpr double kGather = 8, kReduce = 16;  // bytes of a unit, the root's among them

StepModel model_of(Sharding sharding, double compute_s = 1) {
  StepModel model;
  model.units.assign(kUnits, {kGather, kReduce, compute_s, 2 * compute_s});
  model.units.front().kept = true;
  model.sharding = sharding;
  model.inside.bytes_per_s = 1;
  model.loss_s = compute_s / 2;
  model.update_s = compute_s / 4;
  model.gathers_behind_update = false;
  return model;
}

double compute_of(double compute_s) {
  return kUnits * 3 * compute_s + compute_s / 2 + compute_s / 4;
}

double sum_of_parts(const StepPrediction& step) {
  return step.compute_s + step.slowed_s + step.gather_wait_s + step.reduce_wait_s +
         step.cross_wait_s;
}

const std::vector<Sharding> kFourRanks = {Sharding::full_shard(4), Sharding::shard_grad_op(4),
                                          Sharding::no_shard(4), Sharding::hybrid_shard(4, 2)};

TEST(PredictStep, OneRankTakesItsCompute) {
  for (const Sharding& sharding : {Sharding::full_shard(1), Sharding::no_shard(1)}) {
    const StepPrediction step = predict_step(model_of(sharding));
    EXPECT_EQ(step.step_s, compute_of(1));
    EXPECT_EQ(step.comm_s, 0);
  }
}

TEST(PredictStep, WithoutComputeTheSharedLinkIsNeverIdle) {
  for (const Sharding& sharding : kFourRanks) {
    const StepPrediction step = predict_step(model_of(sharding, 0));
    EXPECT_EQ(step.step_s, step.comm_s);
    EXPECT_GT(step.comm_s, 0);
  }
}

// FULL_SHARD of two slots: the last two units are still there when backward begins.
TEST(PredictStep, CommunicationIsThatOfTheStrategy) {
  const auto comm = [](Sharding sharding) { return predict_step(model_of(sharding)).comm_s; };
  const double gather = kGather * 3 / 4, scatter = kReduce * 3 / 4, all_reduce = 2 * scatter;
  EXPECT_EQ(comm(Sharding::full_shard(4)), (2 * kBlocks - 1) * gather + kUnits * scatter);
  EXPECT_EQ(comm(Sharding::shard_grad_op(4)), kUnits * gather + kUnits * scatter);
  EXPECT_EQ(comm(Sharding::no_shard(4)), kUnits * all_reduce);
  EXPECT_EQ(
      comm(Sharding::hybrid_shard(4, 2)),
      (2 * kBlocks - 1) * kGather / 2 + kUnits * kReduce / 2 + kUnits * (2 * kReduce / 2 / 2));
}

TEST(PredictStep, CrossingsOfSeveralRanksOnOneLinkAddUp) {
  StepModel model = model_of(Sharding::hybrid_shard(4, 2), 0);
  const double one = predict_step(model).comm_s;
  model.crossings_on_link = 2;
  EXPECT_EQ(predict_step(model).comm_s, one + kUnits * kReduce / 2);
  model.across = model.inside;
  EXPECT_EQ(predict_step(model).comm_s, one) << "a link of each rank's own";
}

TEST(PredictStep, GlooReducesTheWhole) {
  StepModel model = model_of(Sharding::full_shard(4), 0);
  const double scattered = predict_step(model).comm_s;
  model.backend = BackendModel::gloo();
  EXPECT_EQ(predict_step(model).comm_s, scattered + kUnits * kReduce * 3 / 4);
}

TEST(PredictStep, LongComputeHidesAllButTheFirstGathersAndTheLastReduction) {
  constexpr double kLong = 1024;
  const double gather = kGather * 3 / 4, scatter = kReduce * 3 / 4;
  const auto seconds = [](Sharding sharding) {
    return predict_step(model_of(sharding, kLong)).step_s - compute_of(kLong);
  };
  EXPECT_EQ(seconds(Sharding::full_shard(4)), 2 * gather + scatter) << "root and first block";
  EXPECT_EQ(seconds(Sharding::shard_grad_op(4)), 2 * gather + scatter);
  EXPECT_EQ(seconds(Sharding::no_shard(4)), 2 * scatter);
}

TEST(PredictStep, GathersBehindTheUpdateHideTheFirstOnes) {
  StepModel model = model_of(Sharding::full_shard(4), 1024);
  model.gathers_behind_update = true;
  EXPECT_EQ(predict_step(model).step_s, compute_of(1024) + kReduce * 3 / 4);
  model.prefetch_forward = 0;
  EXPECT_GT(predict_step(model).gather_wait_s, 0) << "nothing is fetched ahead in forward";
}

// The root's shard crosses when all is computed, on a link that has nothing else left.
TEST(PredictStep, TheLastCrossingFollowsTheLastReduction) {
  StepModel model = model_of(Sharding::hybrid_shard(4, 2), 1024);
  model.across = LinkModel{.bytes_per_s = 4};
  const double gather = kGather / 2, scatter = kReduce / 2, crossing = kReduce / 2 / 4;
  const StepPrediction step = predict_step(model);
  EXPECT_EQ(step.step_s, compute_of(1024) + 2 * gather + scatter + crossing);
  EXPECT_EQ(step.cross_wait_s, crossing);
}

TEST(PredictStep, WithoutPrefetchEveryGatherIsWaitedFor) {
  StepModel model = model_of(Sharding::full_shard(4));
  for (UnitModel& unit : model.units) unit.reduce_bytes = 0;  // frozen
  model.update_s = 0;
  const StepPrediction ahead = predict_step(model);
  model.prefetch_forward = model.prefetch_backward = 0;
  const StepPrediction serial = predict_step(model);
  EXPECT_EQ(serial.step_s, serial.compute_s + serial.comm_s);
  EXPECT_LT(ahead.step_s, serial.step_s);
}

TEST(PredictStep, LatencyIsPaidForEachHopAndStartForEachCollective) {
  StepModel model = model_of(Sharding::full_shard(4), 0);
  model.prefetch_forward = model.prefetch_backward = 0;
  model.inside = {.bytes_per_s = 0x1p80, .latency_s = 2, .start_s = 1};
  EXPECT_DOUBLE_EQ(predict_step(model).comm_s, (2 * kBlocks - 1 + kUnits) * (1 + 3 * 2));
}

TEST(PredictStep, AnInfiniteLinkLeavesTheCompute) {
  for (const Sharding& sharding : kFourRanks) {
    StepModel model = model_of(sharding);
    model.inside.bytes_per_s = 0x1p200;
    EXPECT_DOUBLE_EQ(predict_step(model).step_s, compute_of(1));
  }
}

TEST(PredictStep, AFasterLinkIsNeverSlower) {
  for (const Sharding& sharding : kFourRanks)
    for (const bool behind_update : {false, true}) {
      double before = std::numeric_limits<double>::infinity();
      for (double rate = 0.125; rate < 256; rate *= 1.5) {
        StepModel model = model_of(sharding);
        model.inside.bytes_per_s = rate;
        model.gathers_behind_update = behind_update;
        const StepPrediction step = predict_step(model);
        EXPECT_LE(step.step_s, before) << rate;
        EXPECT_WITHIN(std::abs(step.step_s - sum_of_parts(step)) / step.step_s, 1e-14);
        before = step.step_s;
      }
    }
}

TEST(PredictStep, NoSyncReducesOnce) {
  StepModel model = model_of(Sharding::full_shard(4), 0);
  model.micro_batches = 3;
  for (UnitModel& unit : model.units) unit.gather_bytes = 0;
  EXPECT_EQ(predict_step(model).comm_s, 3 * kUnits * kReduce * 3 / 4);
  model.no_sync = true;
  EXPECT_EQ(predict_step(model).comm_s, kUnits * kReduce * 3 / 4);
}

// All reductions but the root's, 24 s of the link each.
TEST(PredictStep, BytesThatCostComputeSlowItDown) {
  StepModel model = model_of(Sharding::no_shard(4), 1024);
  model.inside.compute_s_per_byte = 0.25;
  EXPECT_EQ(predict_step(model).slowed_s, kBlocks * 24 * 0.25);
}

TEST(PredictStep, BytesGetHalfOfWhatComputesAndTakeLonger) {
  StepModel model = model_of(Sharding::no_shard(4), 1024);
  model.inside.compute_s_per_byte = 1;
  EXPECT_EQ(predict_step(model).slowed_s, kBlocks * (2 * 24) * 0.5);
}

TEST(PredictStep, AHeadIsGatheredOnce) {
  StepModel model = model_of(Sharding::full_shard(4), 1024);
  const double plain = predict_step(model).comm_s;
  model.units.back().head = true;
  EXPECT_EQ(predict_step(model).comm_s, plain) << "the turn keeps two units either way";
  model.units[kBlocks - 1].head = true;
  EXPECT_EQ(predict_step(model).comm_s, plain);
  EXPECT_EQ(predict_step(model).compute_s, compute_of(1024));
}

}  // namespace
}  // namespace wmtp::run
