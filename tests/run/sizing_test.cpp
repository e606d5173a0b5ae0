#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "support/expect_error.h"
#include "wmtp/run/plan/sizing/choices.h"
#include "wmtp/run/plan/sizing/choose.h"
#include "wmtp/run/plan/sizing/fit_advice.h"
#include "wmtp/run/plan/sizing/preset_request.h"

namespace wmtp::run {
namespace {

// Nodes of eight H100 with so much memory each.
SizingPlace h100_with(double gib) {
  SizingPlace place;
  place.device = c10::Device(c10::DeviceType::CUDA, 0);
  place.ranks_per_node = 8;
  place.memory_bytes = [gib](const config::Config&, int) {
    return static_cast<std::int64_t>(gib * 0x1p30);
  };
  place.rates = [](int) -> const DeviceModel& { return device_model("h100"); };
  return place;
}

// Nodes of eight of a GPU that is named.
RunSizer sizer_on(const char* gpu, const PresetRun& run = {"qwen3-0.6b", 4, 1024, {}}) {
  SizingPlace place = h100_with(device_model(gpu).memory_bytes / 0x1p30);
  place.named_gpu = device_model(gpu).gpu();
  place.rates = [gpu](int) -> const DeviceModel& { return device_model(gpu); };
  return {preset_request(run), place};
}

RunSizer sizer_of(double gib, const PresetRun& run = {"llama-2-7b", 8, 1024, {}}) {
  return {preset_request(run), h100_with(gib)};
}

TEST(RunSizer, PlansAsTrainDoes) {
  RunSizer sizer = sizer_of(80);
  const SizedRun run = sizer.size({{"training.optimizer.precision=bf16_sr"}, 4});
  RunContext context;
  context.device = sizer.place().device;
  context.world = context.local_world = 4;
  context.memory_bytes = run.limit_bytes;
  const ModelPlan plan = plan_model(run.config(), context);
  EXPECT_TRUE(run.fits());
  EXPECT_EQ(run.needed_bytes(), plan.memory.needed_bytes());
  EXPECT_EQ(run.plan.assemble.transformer.recompute, plan.assemble.transformer.recompute);
  EXPECT_EQ(run.tokens_per_step(), 4 * 8 * 1024);
}

TEST(RunSizer, OfWhatIsTooLargeSaysTheLeastThatItNeeds) {
  RunSizer sizer = sizer_of(4);
  const SizedRun run = sizer.size({{}, 1});
  EXPECT_FALSE(run.fits());
  EXPECT_EQ(run.recompute(), config::Recompute::block);
}

TEST(RunSizer, OpensTheModelThatAnOverrideNames) {
  RunSizer sizer = sizer_of(80);
  const SizedRun seven = sizer.size({{}, 1});
  const SizedRun micro = sizer.size({{"models.policy.path=micro"}, 1});
  EXPECT_EQ(seven.plan.assemble.model.dim, 4096);
  EXPECT_EQ(micro.plan.assemble.model.dim, 128);
  EXPECT_EQ(sizer.size({{}, 2}).plan.assemble.model.dim, 4096);
}

TEST(RunSizer, FindsTheLargestBatch) {
  RunSizer sizer = sizer_of(141);
  const SizedRun run = sizer.size({{"distributed.fsdp.activation_checkpointing=light"}, 4});
  const auto largest = sizer.largest_batch(run);
  ASSERT_TRUE(largest);
  EXPECT_GT(*largest, 1);
  EXPECT_TRUE(
      sizer.size(run.candidate.with({fmt::format("training.batch_size={}", *largest)})).fits());
  EXPECT_FALSE(
      sizer.size(run.candidate.with({fmt::format("training.batch_size={}", *largest + 1)})).fits());
  EXPECT_EQ(sizer.largest_batch(run, 3), 3);
  RunSizer small = sizer_of(4);
  EXPECT_FALSE(small.largest_batch(small.size({{}, 1})));
}

TEST(Sweep, HasTheFastestThatFitsFirstAndTheRefusedLast) {
  RunSizer sizer = sizer_of(60);
  const auto swept = sweep(sizer, {{}, 4},
                           {parse_axis("batch_size=64,1,4,x"), parse_axis("recompute=none,block")});
  ASSERT_EQ(swept.size(), 8u);
  for (std::size_t i = 1; i < swept.size(); ++i) {
    const SweptRun &before = swept[i - 1], &here = swept[i];
    EXPECT_GE(before.run.has_value(), here.run.has_value());
    if (!here.run) continue;
    EXPECT_GE(before.fits(), here.fits());
    if (here.fits()) {
      EXPECT_GE(before.run->speed->tokens_per_s, here.run->speed->tokens_per_s);
    }
    if (!before.fits()) {
      EXPECT_LE(before.run->needed_bytes(), here.run->needed_bytes());
    }
  }
  EXPECT_TRUE(swept.front().fits());
  EXPECT_FALSE(swept[5].fits());
  EXPECT_THAT(swept.back().refused, ::testing::HasSubstr("training.batch_size"));
}

TEST(RunSizer, RefusesWhatTheNamedGpuCannot) {
  RunSizer a100 = sizer_on("a100-80"), l40s = sizer_on("l40s"), h100 = sizer_on("h100");
  const Candidate float8{{"training.float8=rowwise"}, 1}, cudnn{{"runtime.attention=cudnn"}, 1};
  EXPECT_WMTP_ERROR(a100.size(float8), ErrorKind::config,
                    "training.float8: rowwise needs a GPU of compute capability 9.0 or newer, and "
                    "NVIDIA A100 80GB has 8.0");
  EXPECT_WMTP_ERROR(l40s.size(float8), ErrorKind::config, "NVIDIA L40S has 8.9");
  EXPECT_WMTP_ERROR(a100.size(cudnn), ErrorKind::config, "NVIDIA A100 80GB has 8.0");
  EXPECT_TRUE(h100.size(float8).fits());
  EXPECT_TRUE(h100.size(cudnn).fits());
}

TEST(Sweep, OffersNoFloat8WhereTheNamedGpuHasNone) {
  const std::vector<SweepAxis> axes{parse_axis("training.float8=off,tensorwise,rowwise")};
  for (const char* gpu : {"a100-80", "l40s", "rtx4090"}) {
    RunSizer sizer = sizer_on(gpu);
    for (const SweptRun& one : sweep(sizer, {{}, 1}, axes)) {
      EXPECT_EQ(one.run.has_value(), one.values[0] == "off") << gpu << one.values[0];
      if (!one.run) {
        EXPECT_THAT(one.refused, ::testing::HasSubstr("compute capability 9.0 or newer")) << gpu;
      }
    }
    const auto chosen = choose(sizer, sizer.size({{}, 1}), {axes, false});
    ASSERT_TRUE(chosen);
    EXPECT_EQ(chosen->num_sized, 1u) << gpu;
    EXPECT_EQ(chosen->run.config().training.float8, config::Float8::off) << gpu;
    for (const Choice& one : compare_choices(sizer, sizer.size({{}, 1})))
      EXPECT_NE(one.group, "float8") << gpu << one.name;
  }
}

TEST(Sweep, HasFloat8FirstWhereTheNamedGpuHasIt) {
  const std::vector<SweepAxis> axes{parse_axis("training.float8=off,tensorwise,rowwise")};
  for (const char* gpu : {"h200", "b200"}) {
    RunSizer sizer = sizer_on(gpu, {"llama-2-7b", 4, 2048, 16});
    const auto swept = sweep(sizer, {{}, 1}, axes);
    ASSERT_EQ(swept.size(), 3u);
    EXPECT_EQ(swept.back().values[0], "off") << gpu;
    for (const SweptRun& one : swept)
      EXPECT_EQ(one.run->speed->estimated, gpu != std::string("h200") || one.values[0] != "off");
  }
}

// What more rows would store is refused, and so is no row that is proposed.
TEST(RunSizer, CountsWhatReproducibleAttentionStores) {
  RunSizer sizer = sizer_on("h200", {"llama-2-7b", 2, 1024, 16});
  const Candidate cudnn{{"runtime.attention=cudnn"}, 1};
  const Candidate stores = cudnn.with({"runtime.deterministic=true", "runtime.threads=1"});
  const SizedRun plain = sizer.size(cudnn), reproducible = sizer.size(stores);
  const std::int64_t bytes = reproducible.plan.memory_request.stored_score_bytes;
  EXPECT_EQ(plain.plan.memory_request.stored_score_bytes, 0);
  EXPECT_GE(bytes, 2 * 32 * 1024 * 1024 * 2);
  EXPECT_GT(reproducible.needed_bytes(), plain.needed_bytes());
  const auto largest = sizer.largest_batch(reproducible);
  ASSERT_TRUE(largest);
  EXPECT_GE(*largest, 2);
  EXPECT_LE(*largest * 32 * 1024 * 1024 * 2, std::int64_t{1} << 30);
  EXPECT_GT(sizer.largest_batch(plain).value_or(0), *largest);
  const auto chosen = choose(sizer, reproducible, {{}, /*any_samples=*/true});
  ASSERT_TRUE(chosen);
  EXPECT_LE(chosen->run.batch_size(), *largest);
}

TEST(Sweep, CountsRanks) {
  RunSizer sizer = sizer_of(80);
  const auto swept = sweep(sizer, {{}, 1}, {parse_axis("world_size=4,8")});
  ASSERT_EQ(swept.size(), 2u);
  std::map<int, std::int64_t> needed;
  for (const SweptRun& one : swept) needed[one.run->world()] = one.run->needed_bytes();
  EXPECT_GT(needed.at(4), needed.at(8));
}

TEST(Sweep, RefusesWhatIsNoAxis) {
  constexpr auto kConfig = ErrorKind::config;
  EXPECT_WMTP_ERROR(parse_axis("batch_sise=1"), kConfig, "did you mean batch_size?");
  EXPECT_WMTP_ERROR(parse_axis("nothing.like.it=1"), kConfig, "there is no key nothing.like.it");
  EXPECT_WMTP_ERROR(parse_axis("batch_size"), kConfig, "has no values");
  EXPECT_WMTP_ERROR(parse_axis("batch_size=1,,2"), kConfig, "is empty");
  EXPECT_WMTP_ERROR(parse_axis("world_size=0"), kConfig, "0 is no number of ranks");
  RunSizer sizer = sizer_of(80);
  EXPECT_WMTP_ERROR(sweep(sizer, {{}, 1}, {parse_axis("training.batch_size=x")}), kConfig,
                    "none of 1 combinations is allowed");
  std::string values = "=1";
  for (int i = 2; i <= 70; ++i) values += fmt::format(",{}", i);
  EXPECT_WMTP_ERROR(
      sweep(sizer, {{}, 1}, {parse_axis("batch_size" + values), parse_axis("max_length" + values)}),
      kConfig, "4900 combinations, the limit is 4096");
  EXPECT_EQ(parse_axis("training.lora.target_modules=[wq,wk],[wq]").values,
            (std::vector<std::string>{"[wq,wk]", "[wq]"}));
}

// Against every combination there is: strategy x recompute x all batches that divide 12 rows.
TEST(Choose, TakesWhatFitsAndIsAsFastAsTheBestOfAll) {
  for (const int world : {1, 8}) {
    std::size_t num_chosen = 0;
    for (const double gib : {10, 60, 141}) {
      RunSizer sizer = sizer_of(gib, {"llama-2-7b", 12, 1024, {}});
      const SizedRun base = sizer.size({{}, world});
      double fastest = 0;
      for (const SweptRun& one : sweep(
               sizer, base.candidate,
               {parse_axis("strategy=FULL_SHARD,SHARD_GRAD_OP,NO_SHARD"),
                parse_axis("recompute=none,light,block"), parse_axis("batch_size=1,2,3,4,6,12")})) {
        const std::int64_t batch = one.run->batch_size();
        SizedRun same = sizer.size(one.run->candidate.with(batch_overrides(base, batch)));
        EXPECT_EQ(same.samples_per_rank(), 12);
        if (!same.fits()) continue;
        sizer.add_speed(same);
        fastest = std::max(fastest, same.speed->tokens_per_s);
      }
      const auto chosen = choose(sizer, base, {});
      EXPECT_EQ(chosen.has_value(), fastest > 0) << gib << " GiB, " << world << " ranks";
      if (!chosen) continue;
      ++num_chosen;
      EXPECT_TRUE(chosen->run.fits());
      EXPECT_EQ(chosen->run.samples_per_rank(), 12);
      EXPECT_GE(chosen->run.speed->tokens_per_s, 0.99 * fastest);
    }
    EXPECT_EQ(num_chosen, world == 1 ? 1u : 2u);  // 16 bytes a parameter: 100 GiB, 12.6 GiB
  }
}

TEST(Choose, KeepsToTheAxesThatAreNamed) {
  RunSizer sizer = sizer_of(141);
  const SizedRun base = sizer.size({{}, 2});
  const auto chosen = choose(sizer, base, {{parse_axis("recompute=block")}, false});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->num_sized, 1u);
  EXPECT_EQ(chosen->run.batch_size(), 8);
  EXPECT_EQ(chosen->run.recompute(), config::Recompute::block);
}

TEST(Choose, OfWhatIsAlikeTakesTheSmallest) {
  const auto run_with = [](double tokens_per_s, std::int64_t bytes) {
    SizedRun run;
    run.speed = ExpectedSpeed{};
    run.speed->tokens_per_s = tokens_per_s;
    run.plan.memory.rows.push_back({"all", bytes, false});
    return run;
  };
  EXPECT_EQ(best_of({}), nullptr);
  const std::vector<SizedRun> runs{run_with(980, 10), run_with(1000, 5000), run_with(995, 4000),
                                   run_with(991, 3000)};
  EXPECT_EQ(best_of(runs), &runs[3]);
}

TEST(FitAdvice, FitsWhereItIsFollowedAndHasNothingTooMuch) {
  std::size_t num_advised = 0;
  for (const double gib : {8, 20, 50, 100}) {
    RunSizer sizer = sizer_of(gib, {"llama-2-7b", 64, 2048, {}});
    const SizedRun run = sizer.size({{"distributed.fsdp.activation_checkpointing=none",
                                      "distributed.fsdp.sharding_strategy=NO_SHARD"},
                                     2});
    ASSERT_FALSE(run.fits());
    const FitAdvice advice = advise(sizer, run);
    EXPECT_FALSE(advice.changes.empty());
    for (const FitChange& one : advice.changes) {
      const SizedRun changed = sizer.size(run.candidate.with(one.overrides));
      EXPECT_EQ(changed.needed_bytes(), one.needed_bytes);
      EXPECT_LT(one.needed_bytes, run.needed_bytes());
      EXPECT_EQ(changed.fits(), one.fits);
    }
    if (!advice.overrides.empty()) {
      ++num_advised;
      EXPECT_TRUE(sizer.size(run.candidate.with(advice.overrides)).fits());
    }
    // What 64 rows keep is the same on any number of ranks.
    EXPECT_EQ(advice.world.has_value(), gib > 60);
    if (!advice.world) continue;
    Candidate more = run.candidate.with(advice.world_overrides);
    more.world = *advice.world;
    EXPECT_TRUE(sizer.size(more).fits());
  }
  EXPECT_EQ(num_advised, 4u);
}

TEST(Choices, HaveEachGroupWithOneAsItIs) {
  RunSizer sizer = sizer_of(80);
  std::map<std::string, int> current, count;
  for (const Choice& one : compare_choices(sizer, sizer.size({{}, 16}))) {
    current[one.group] += one.current ? 1 : 0;
    ++count[one.group];
    EXPECT_EQ(one.run.fits(), one.run.speed.has_value());
    EXPECT_EQ(one.run.fits(), one.largest_batch.value_or(0) >= one.run.batch_size()) << one.name;
  }
  using Counts = std::map<std::string, int>;
  EXPECT_EQ(
      current,
      (Counts{
          {"recompute", 1}, {"strategy", 1}, {"precision", 1}, {"float8", 1}, {"training", 1}}));
  EXPECT_EQ(
      count,
      (Counts{
          {"recompute", 3}, {"strategy", 4}, {"precision", 6}, {"float8", 3}, {"training", 2}}));
}

}  // namespace
}  // namespace wmtp::run
