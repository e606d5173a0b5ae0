// The course of a step's memory: which moment needs most, and what is alive in it.
#include <gtest/gtest.h>

#include <algorithm>

#include "wmtp/model/presets.h"
#include "wmtp/run/plan/memory_plan.h"
#include "wmtp/training/frozen_model.h"

namespace wmtp::run {
namespace {

MemoryRequest request_of(const char* preset, std::int64_t tokens,
                         model::Recompute recompute = model::Recompute::none) {
  MemoryRequest request;
  request.model = model::preset(preset);
  request.recompute = recompute;
  request.tokens = tokens;
  return request;
}

MemoryRequest on_gpu(MemoryRequest request) {
  request.parallel.device = c10::Device(c10::kCUDA, 0);
  request.parallel.param_dtype = kBFloat16;
  return request;
}

const MemoryPlan::Moment& moment(const MemoryPlan& plan, const std::string& name) {
  const auto found = std::ranges::find(plan.moments, name, &MemoryPlan::Moment::name);
  if (found == plan.moments.end()) throw std::out_of_range(name);
  return *found;
}

std::int64_t row(const MemoryPlan::Moment& moment, const std::string& what) {
  const auto found = std::ranges::find(moment.rows, what, &MemoryPlan::Row::what);
  return found == moment.rows.end() ? 0 : found->bytes;
}

// Weights, gradients and slots stay; the peak is the most of the moments, and its rows are shown.
TEST(MemoryMoments, ThePeakIsTheMostOfThem) {
  const MemoryPlan plan = plan_memory(request_of("small", 512));
  const MemoryPlan::Moment& peak = moment(plan, plan.peak);
  for (const MemoryPlan::Moment& one : plan.moments) {
    EXPECT_LE(one.bytes(), peak.bytes()) << one.name;
    EXPECT_EQ(row(one, "gradients (fp32)"), row(peak, "gradients (fp32)")) << one.name;
  }
  EXPECT_EQ(plan.total_bytes(), peak.bytes());
  EXPECT_NE(plan.table().find("together at the peak: " + plan.peak), std::string::npos);
}

TEST(MemoryMoments, LogitsOfFewTokensOfAWideVocabulary) {
  EXPECT_EQ(plan_memory(request_of("small", 512)).peak, "logits of a prediction head");
}

// A chunk of logits does not grow with the tokens, a head's block does.
TEST(MemoryMoments, AHeadsBackwardOfManyTokens) {
  const auto few = on_gpu(request_of("llama-mtp-7b", 4096, model::Recompute::block));
  EXPECT_EQ(plan_memory(few).peak, "logits of a prediction head");
  const auto many = on_gpu(request_of("llama-mtp-7b", 65536, model::Recompute::block));
  EXPECT_EQ(plan_memory(many).peak, "backward of a prediction head");
}

// A plain model has no head block, and a block that is recomputed needs more than its logits.
TEST(MemoryMoments, TheFirstTrunkBackwardOfAPlainModel) {
  const MemoryPlan plan = plan_memory(request_of("micro-llama", 2048, model::Recompute::block));
  EXPECT_EQ(plan.peak, "first trunk backward");
  EXPECT_EQ(row(moment(plan, plan.peak), "activations kept by the trunk"), 3 * 2048 * 4 * 128);
  EXPECT_EQ(row(moment(plan, "last trunk backward"), "activations kept by the trunk"), 0);
}

// Whole gradients that are reduced in bf16 are copied unit by unit, and the copies stay.
TEST(MemoryMoments, TheLastBackwardWhereGradientsAreCopied) {
  MemoryRequest request = on_gpu(request_of("llama-2-7b", 8192, model::Recompute::block));
  request.world = 2;
  request.parallel.strategy = parallel::Strategy::no_shard;
  EXPECT_EQ(plan_memory(request).peak, "first trunk backward");
  request.parallel.reduce_dtype = kBFloat16;
  const MemoryPlan plan = plan_memory(request);
  EXPECT_EQ(plan.peak, "last trunk backward");
  EXPECT_EQ(row(moment(plan, plan.peak), "gradients on their way in another dtype"),
            2 * 32 * request.model.block_parameters());
  request.tokens = 128;  // now the root's copy is more than a block's work
  EXPECT_EQ(plan_memory(request).peak, "embedding backward");
  request.world = 1;  // nothing travels
  EXPECT_EQ(plan_memory(request).peak, "first trunk backward");
}

// Gloo gathers the next step's root in a copy, while the other units are updated.
TEST(MemoryMoments, TheUpdateOfShardsOnACpu) {
  MemoryRequest request = request_of("small", 64);
  EXPECT_EQ(plan_memory(request).peak, "logits of a prediction head");
  request.world = 2;
  const MemoryPlan plan = plan_memory(request);
  EXPECT_EQ(plan.peak, "update");
  EXPECT_EQ(row(moment(plan, plan.peak), "copy of the root's gather under way (Gloo)"),
            4 * (2 * 32000 * 512 + 512));
  request.parallel.strategy = parallel::Strategy::no_shard;
  EXPECT_EQ(plan_memory(request).peak, "logits of a prediction head");
}

TEST(MemoryMoments, WeightsThatAreReadIntoFewerBits) {
  MemoryRequest request = request_of("small", 64);
  request.parallel.master_dtype = kBFloat16;
  const MemoryPlan plan = plan_memory(request);
  EXPECT_EQ(plan.peak, "reading the weights");
  EXPECT_EQ(row(moment(plan, plan.peak), "one parameter on its way to fewer bits"),
            4 * 32000 * 512);
  request.tokens = 1024;
  EXPECT_EQ(plan_memory(request).peak, "logits of a prediction head");
}

TEST(MemoryMoments, ValueHeadAndFrozenTrunk) {
  MemoryRequest critic = request_of("small", 512);
  critic.model = model::backbone(critic.model);
  critic.heads = false;
  critic.value_head = model::ValueHeadType::mlp;
  EXPECT_EQ(plan_memory(critic).peak, "value head");
  critic.recompute = model::Recompute::block;
  EXPECT_EQ(plan_memory(critic).peak, "first trunk backward");
  critic.frozen = true;
  const MemoryPlan plan = plan_memory(critic);
  EXPECT_EQ(plan.peak, "trunk forward");
  EXPECT_EQ(row(moment(plan, plan.peak), "activations kept by the trunk"), 0);
}

TEST(MemoryMoments, AFrozenModelThatIsTheLarger) {
  models::ModelSource source;
  source.config = model::preset("small");
  constexpr auto kUse = training::FrozenModelOptions::Use::next_token_nll;
  MemoryRequest request = request_of("micro", 1024);
  EXPECT_NE(plan_memory(request).peak, "frozen model's forward");
  request.other = FrozenRequest{.model = training::frozen_config(source, kUse),
                                .units = training::frozen_units(source, kUse)};
  EXPECT_EQ(plan_memory(request).peak, "frozen model's forward");
}

// Gradients are there from the start, so a second micro-batch adds itself and nothing else.
TEST(MemoryMoments, AccumulationAddsItsMicroBatches) {
  MemoryRequest request = request_of("small", 512);
  const MemoryPlan one = plan_memory(request);
  request.micro_batches = 4;
  const MemoryPlan four = plan_memory(request);
  EXPECT_EQ(four.peak, one.peak);
  EXPECT_EQ(four.total_bytes() - one.total_bytes(), 3 * row(moment(one, one.peak), "micro-batch"));
}

// What cuDNN stores to be reproducible is there in a backward of attention, once, and nowhere else.
TEST(MemoryMoments, StoredScoresOfAReproducibleAttention) {
  MemoryRequest request = on_gpu(request_of("small", 1024));
  request.packed_cudnn = true;
  request.stored_score_bytes = std::int64_t{1} << 29;
  const MemoryPlan half = plan_memory(request);
  request.stored_score_bytes = std::int64_t{1} << 30;
  const MemoryPlan whole = plan_memory(request);
  for (const MemoryPlan::Moment& one : half.moments) {
    const bool attends =
        one.name.ends_with("trunk backward") || one.name == "backward of a prediction head";
    EXPECT_EQ(moment(whole, one.name).bytes() - one.bytes(), attends ? std::int64_t{1} << 29 : 0)
        << one.name;
  }
  EXPECT_EQ(whole.total_bytes() - half.total_bytes(), std::int64_t{1} << 29);
}

// The updates of the step before may still read their gradients when the frozen model begins.
TEST(MemoryMoments, GradientsThatComeAndGoAreAllThereBesideAFrozenModel) {
  MemoryRequest request = on_gpu(request_of("small", 64));
  request.other = FrozenRequest{.model = request.model, .units = {}, .dtype = kBFloat16};
  request.parallel.frees_grads = true;
  const MemoryPlan plan = plan_memory(request);
  EXPECT_EQ(row(moment(plan, "frozen model's forward"), "gradients (fp32)"),
            row(moment(plan, "update"), "gradients (fp32)"));
  EXPECT_GE(row(moment(plan, "update"), "gradients (fp32)"), 4 * request.model.total_parameters());
}

// What comes and goes in a step is there twice, and each graph has a batch.
TEST(MemoryMoments, GraphsHaveASecondSetOfActivations) {
  MemoryRequest request = on_gpu(request_of("small", 64));
  const MemoryPlan plain = plan_memory(request);
  request.num_graphs = 8;
  const MemoryPlan plan = plan_memory(request);
  const std::int64_t standing = row(plan.moments.back(), "micro-batch") * 8;
  const std::int64_t second =
      row(plan.moments.back(), "memory of the graphs, a second set of activations");
  EXPECT_EQ(row(plan.moments.back(), "micro-batches of 8 graphs"), standing);
  EXPECT_EQ(plan.total_bytes() - plain.total_bytes(), standing + second);
  EXPECT_GT(second, row(moment(plan, "logits of a prediction head"), "one chunk of logits"));
  EXPECT_LT(second, plain.total_bytes() - plain.state_bytes);
}

// Chunks are the kernel's own, unless the configuration says how many rows one has.
TEST(MemoryMoments, ChunksOfLogits) {
  MemoryRequest request = request_of("small", 4096);
  const auto chunk = [&] {
    return row(moment(plan_memory(request), "logits of a prediction head"), "one chunk of logits");
  };
  EXPECT_LE(chunk(), (std::int64_t{64} << 20) * (32000 + 512) / 32000);
  request.loss_chunk_rows = 100;
  EXPECT_EQ(chunk(), 100 * 4 * (32000 + 512));
}

}  // namespace
}  // namespace wmtp::run
