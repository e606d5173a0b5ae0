// Exact resume: a run that is cut after any step and goes on ends with the state of the run that
// was not, bit for bit, and whatever item of the state is left out is noticed.
// With WMTP_SOAK (make soak) every cut runs to the end; otherwise cuts go on for some steps (the
// state there being equal, the rest follows from the next cut).
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "run/edited_checkpoint.h"
#include "run/tiny_run.h"
#include "support/expect_error.h"
#include "support/multi_process.h"
#include "support/soak.h"
#include "support/temp_dir.h"
#include "support/tolerance.h"
#include "wmtp/core/failpoint.h"

namespace wmtp::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kStepsAfterCut = 3;

bool soak() {
  return soak_factor() > 1;
}

std::string save_dir(const fs::path& folder) {
  return "checkpoint.save_dir=" + folder.string();
}

void arm(const std::string& spec, int rank = 0) {
  failpoint::configure({.spec = spec, .rank = rank, .log_path = {}});
}

// One folder of runs: the straight one, saved after every step, and those that go on from it.
class Runs {
 public:
  using Session = std::unique_ptr<comm::ProcessGroupSession>;
  Runs(Session& session, fs::path folder, TinyStage stage, std::vector<std::string> keys = {})
      : session_(session),
        folder_(std::move(folder)),
        stage_(std::move(stage)),
        keys_(std::move(keys)) {}

  fs::path straight_dir() const { return folder_ / (name() + "-straight"); }
  fs::path straight(std::int64_t step) const { return straight_dir() / checkpoint_at(step); }

  // The eighth step is spoiled, so that skipped steps are part of the story.
  void run_straight() {
    renew();
    arm("step.loss:nth=8=damage", session_->rank());
    std::vector<std::string> overrides = keys_;
    overrides.insert(overrides.end(), {save_dir(straight_dir()), "checkpoint.save_every_steps=1"});
    TinyRun run(*session_, folder_, stage_, overrides);
    ASSERT_EQ(run.run(), run::RunEnd::completed);
    arm("", session_->rank());
  }

  // Goes on from `checkpoint` (after the spoiled step), saves into a folder of its own; the hash of
  // its last state and the step of that.
  struct End {
    std::string hash;
    std::int64_t step = 0;
  };
  End go_on(const fs::path& checkpoint, std::optional<std::int64_t> stop_at,
            std::vector<std::string> overrides = {}) {
    const fs::path out = folder_ / fmt::format("{}-cut-{}", name(), ++num_runs_);
    overrides.insert(overrides.begin(),
                     {save_dir(out), "checkpoint.resume=" + checkpoint.string()});
    overrides.insert(overrides.begin(), keys_.begin(), keys_.end());
    End end;
    renew();
    {
      TinyRun run(*session_, folder_, stage_, std::move(overrides));
      run.run(stop_at);
      end.step = run.trainer().state().step;
    }
    session_->gather_group().barrier("test");
    end.hash = state_hash(out / checkpoint_at(end.step));
    session_->gather_group().barrier("test");
    if (session_->rank() == 0) fs::remove_all(out);
    return end;
  }

  // Before the spoiled step the point must be armed anew.
  End cut_at(std::int64_t step, bool to_the_end) {
    arm(step < 8 ? fmt::format("step.loss:nth={}=damage", 8 - step) : "", session_->rank());
    return go_on(straight(step), to_the_end ? std::nullopt : std::optional(step + kStepsAfterCut));
  }

  void expect_all_cuts(std::int64_t every, bool to_the_end) {
    run_straight();
    for (std::int64_t step = 1; step < kTinySteps; step += every) {
      const End end = cut_at(step, to_the_end || soak());
      EXPECT_GE(end.step, std::min(step + kStepsAfterCut, kTinySteps));
      EXPECT_EQ(end.hash, state_hash(straight(end.step))) << name() << " cut after step " << step;
    }
  }

 private:
  // The order of collectives is compared once in a session: each run has its own.
  void renew() {
    if (session_->world() == 1) return;
    static int number = 0;
    comm::LaunchEnv launch = session_->launch();
    const fs::path meet = fs::path(worker_folder()) / fmt::format("meet-{}", ++number);
    if (session_->rank() == 0) {
      fs::create_directories(meet);
      fs::permissions(meet, fs::perms::owner_all);
    }
    session_->gather_group().barrier("meet");
    session_->finish();
    launch.rendezvous = "file://" + meet.string();
    session_ = comm::ProcessGroupSession::start(launch, {});
    session_->connect();
  }
  std::string name() const { return stage_.stage + (stage_.lora ? "-lora" : ""); }

  Session& session_;
  fs::path folder_;
  TinyStage stage_;
  std::vector<std::string> keys_;
  int num_runs_ = 0;
};

class ExactResume : public ::testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    make_tiny_data(folder_.path());
  }
  void TearDown() override { arm(""); }

  TempDir folder_;
  std::unique_ptr<comm::ProcessGroupSession> session_ = single_session();
};

TEST_F(ExactResume, EveryCutOfVerifiableWithAdaptersToTheEnd) {
  Runs(session_, folder_.path(), {"verifiable", true}).expect_all_cuts(1, /*to_the_end=*/true);
}

TEST_F(ExactResume, EveryCutOfVerifiable) {
  Runs(session_, folder_.path(), {"verifiable", false}).expect_all_cuts(1, false);
}

TEST_F(ExactResume, EveryCutOfCritic) {
  for (const bool lora : {false, true})
    Runs(session_, folder_.path(), {"critic", lora}).expect_all_cuts(1, false);
}

TEST_F(ExactResume, EveryCutOfBaselineAndOfRho1AgainstOneOfItsCheckpoints) {
  for (const bool lora : {false, true}) {
    Runs baseline(session_, folder_.path(), {"baseline", lora});
    baseline.expect_all_cuts(1, false);
    Runs(session_, folder_.path(), {"rho1", lora, baseline.straight(20).string()})
        .expect_all_cuts(1, false);
  }
}

TEST_F(ExactResume, SavingChangesNothing) {
  Runs runs(session_, folder_.path(), {"verifiable", true});
  runs.run_straight();
  arm("step.loss:nth=8=damage");
  TinyRun quiet(*session_, folder_.path(), {"verifiable", true},
                {save_dir(folder_ / "quiet"), "checkpoint.async=true"});
  EXPECT_EQ(quiet.run(), run::RunEnd::completed);
  EXPECT_EQ(state_hash(folder_ / "quiet" / checkpoint_at(kTinySteps)),
            state_hash(runs.straight(kTinySteps)));
}

TEST_F(ExactResume, WithTwoThreads) {
  at::set_num_threads(2);
  Runs(session_, folder_.path(), {"verifiable", true}).expect_all_cuts(soak() ? 1 : 3, false);
}

// Every item, put back to what it is at the start of a run.
struct Omission {
  const char* name;
  std::function<void(Json&)> edit;
};

std::vector<Omission> omissions() {
  return {
      {"applied_updates", [](Json& s) { s["optimizer"]["applied_updates"] = 0; }},
      {"plateau factor", [](Json& s) { s["schedule"]["plateau_factor"] = 1.0; }},
      {"plateau best", [](Json& s) { s["schedule"]["plateau_best"] = nullptr; }},
      {"plateau waited", [](Json& s) { s["schedule"]["plateau_waited"] = 0; }},
      {"skipped steps", [](Json& s) { s["schedule"]["skipped_steps"] = 0; }},
      {"ema mean", [](Json& s) { s["ema"]["ema_mean"] = 0.0; }},
      {"ema std", [](Json& s) { s["ema"]["ema_std"] = 1.0; }},
      {"ema count", [](Json& s) { s["ema"]["step_count"] = 0; }},
      {"ema", [](Json& s) { s["ema"] = nullptr; }},
      {"cursor epoch", [](Json& s) { s["cursor"]["epoch"] = s["epoch"] = 0; }},
      {"cursor samples", [](Json& s) { s["cursor"]["samples_taken"] = 0; }},
      {"cursor seed", [](Json& s) { s["cursor"]["seed"] = 0; }},
      {"cursor list size", [](Json& s) { s["cursor"]["num_samples"] = 0; }},
      {"cursor list hash", [](Json& s) { s["cursor"]["list_hash"] = ""; }},
      {"cursor data", [](Json& s) { s["cursor"]["data_fingerprint"] = ""; }},
      {"cursor tokenizer", [](Json& s) { s["cursor"]["tokenizer_fingerprint"] = ""; }},
      {"epoch", [](Json& s) { s["epoch"] = 0; }},
      {"seed", [](Json& s) { s["rng"]["seed"] = 0; }},
      {"step", [](Json& s) { s["step"] = 0; }},
      {"samples seen", [](Json& s) { s["samples_seen"] = 0; }},
      {"tokens seen", [](Json& s) { s["tokens_seen"] = 0; }},
      {"best value", [](Json& s) { s["best"]["value"] = 1e9; }},
      {"best step", [](Json& s) { s["best"]["step"] = 0; }},
      {"best", [](Json& s) { s["best"] = nullptr; }},
      {"early stop", [](Json& s) { s["early_stop"]["without_best"] = 0; }},
  };
}

// A step at which the item has another value than at the start, and no new best is about to
// replace it; -1: there is none.
std::int64_t telling_step(const Runs& runs, const Omission& omission) {
  for (std::int64_t step = 10; step < kTinySteps - kStepsAfterCut; ++step) {
    const Json state = Json::parse(slurp(runs.straight(step) / "trainer_state.json"));
    Json edited = state;
    omission.edit(edited);
    const Json later =
        Json::parse(slurp(runs.straight(step + kStepsAfterCut) / "trainer_state.json"));
    if (edited != state && state["best"] == later["best"]) return step;
  }
  return -1;
}

// A learning rate at which validation gets worse now and then.
TEST_F(ExactResume, EveryItemLeftOutIsNoticed) {
  Runs runs(session_, folder_.path(), {"verifiable", true},
            {"training.learning_rate=0.1", "training.lr_scheduler.patience=2"});
  runs.run_straight();
  int number = 0;
  const auto fresh = [&](std::int64_t step) {
    return folder_ / std::to_string(++number) / checkpoint_at(step);
  };
  // Refused, or another state after a few steps.
  const auto is_noticed = [&](const fs::path& checkpoint, std::int64_t step) {
    try {
      const auto end = runs.go_on(checkpoint, step + 1);
      return end.hash != state_hash(runs.straight(end.step));
    } catch (const Error&) {
      return true;
    }
  };
  std::set<std::int64_t> controlled;
  for (const Omission& omission : omissions()) {
    const std::int64_t step = telling_step(runs, omission);
    ASSERT_GT(step, 0) << omission.name << " has its first value at every step";
    const fs::path control = fresh(step), copy = fresh(step);
    if (controlled.insert(step).second) {
      copy_with_state(runs.straight(step), control, [](Json&) {});
      EXPECT_FALSE(is_noticed(control, step)) << "the control: nothing was left out";
    }
    copy_with_state(runs.straight(step), copy, omission.edit);
    EXPECT_TRUE(is_noticed(copy, step)) << omission.name;
  }
  for (const char* tensors :
       {"model.embed_tokens.weight", "model.norm.weight", "q_proj.weight", "lora_A.weight",
        "lora_B.weight", "value_head.mlp.0.weight", ".exp_avg", ".exp_avg_sq",
        "lora_B.weight.exp_avg", "value_head.mlp.0.weight.exp_avg_sq"}) {
    const fs::path copy = fresh(20);
    ASSERT_GT(copy_with_zeros(runs.straight(20), copy, tensors), 0) << tensors;
    EXPECT_TRUE(is_noticed(copy, 20)) << tensors;
  }
}

// What the configuration of the run that goes on decides (keys of class F) is saved for the record.
TEST_F(ExactResume, WhatTheConfigurationDecidesIsNotTakenFromTheState) {
  const TinyStage stage{"verifiable", true};
  Runs runs(session_, folder_.path(), stage);
  runs.run_straight();
  const fs::path copy = folder_ / "copy" / checkpoint_at(20);
  copy_with_state(runs.straight(20), copy, [](Json& s) {
    for (Json& group : s["optimizer"]["groups"]) group["learning_rate"] = group["weight_decay"] = 1;
    s["schedule"]["planned_steps"] = 21;
    s["ema"]["momentum"] = 0.9;
    s["ema"]["warmup_steps"] = 1000;
    s["layout"]["batch_size"] = 7;
  });
  const auto end = runs.go_on(copy, 23);
  EXPECT_EQ(end.hash, state_hash(runs.straight(end.step)));
  // Another value of such a key is taken, saved, and told.
  const fs::path out = folder_ / "changed";
  TinyRun changed(
      *session_, folder_.path(), stage,
      {save_dir(out), "checkpoint.resume=" + runs.straight(20).string(),
       "training.learning_rate=0.02", "training.max_steps=24", "training.td.ema_momentum=0.5"});
  EXPECT_THAT(
      changed.trainer().resumption()->config_changes,
      testing::IsSupersetOf({"training.learning_rate: 0.01 -> 0.02", "training.max_steps: 40 -> 24",
                             "training.td.ema_momentum: 0.1 -> 0.5"}));
  EXPECT_EQ(changed.run(), run::RunEnd::completed);
  const Json state = Json::parse(slurp(out / checkpoint_at(24) / "trainer_state.json"));
  EXPECT_EQ(state["optimizer"]["groups"][0]["learning_rate"], 0.02);
  EXPECT_EQ(state["schedule"]["planned_steps"], 24);
  EXPECT_EQ(state["ema"]["momentum"], 0.5);
}

// The planned steps are counted anew from the cursor: epochs that end within a step, and a part of
// one at the end, under a schedule that needs the total.
TEST_F(ExactResume, PlannedStepsOfACosineAreFoundAgain) {
  Runs runs(session_, folder_.path(), {"baseline", false},
            {"training.max_steps=null", "training.n_epochs=3.35", "data_sampling.n_samples=23",
             "training.lr_scheduler.type=cosine"});
  runs.expect_all_cuts(3, false);
  EXPECT_TRUE(fs::exists(runs.straight(kTinySteps)));
  EXPECT_FALSE(fs::exists(runs.straight(kTinySteps + 1)));
}

// Which data, tokenizer and configuration a checkpoint is of.
TEST_F(ExactResume, AnotherOriginIsRefusedByName) {
  const TinyStage stage{"baseline", true};
  TinyRun part(*session_, folder_.path(), stage, {save_dir(folder_ / "part")});
  part.run(8);
  const fs::path saved = folder_ / "part" / checkpoint_at(part.trainer().state().step);
  Runs runs(session_, folder_.path(), stage);
  int number = 0;
  const auto fresh = [&] { return folder_ / std::to_string(++number) / saved.filename(); };
  const auto go_on = [&](const fs::path& checkpoint) { runs.go_on(checkpoint, 10); };
  const auto with_manifest = [&](const std::function<void(checkpoint::Manifest&)>& edit) {
    const fs::path copy = fresh();
    copy_with_manifest(saved, copy, edit);
    return copy;
  };
  EXPECT_NO_THROW(go_on(with_manifest([](checkpoint::Manifest&) {}))) << "the control";
  EXPECT_NO_THROW(go_on(with_manifest([](checkpoint::Manifest& m) { m.fingerprints.config = ""; })))
      << "a label: config.yaml is what counts";
  EXPECT_WMTP_ERROR(go_on(with_manifest([](checkpoint::Manifest& m) { m.fingerprints.data = ""; })),
                    ErrorKind::checkpoint, "name different data");
  EXPECT_WMTP_ERROR(
      go_on(with_manifest([](checkpoint::Manifest& m) { m.fingerprints.tokenizer = ""; })),
      ErrorKind::checkpoint, "name different tokenizers");
  // Both places alike: a run on other data, with another tokenizer.
  for (const auto& [key, what] : {std::pair{"data_fingerprint", "the data files"},
                                  std::pair{"tokenizer_fingerprint", "the tokenizer"}}) {
    const fs::path other = with_manifest([key = std::string(key)](checkpoint::Manifest& m) {
      (key == "data_fingerprint" ? m.fingerprints.data : m.fingerprints.tokenizer) = "other";
    });
    const fs::path both = fresh();
    copy_with_state(other, both, [key = key](Json& s) { s["cursor"][key] = "other"; });
    EXPECT_WMTP_ERROR(go_on(both), ErrorKind::config, what);
  }
  const fs::path other_config = fresh();
  copy_with_config(saved, other_config, [](std::string& yaml) {
    const std::size_t at = yaml.find("max_length: 112");
    ASSERT_NE(at, yaml.npos) << yaml;
    yaml.replace(at, 15, "max_length: 100");
  });
  EXPECT_WMTP_ERROR(go_on(other_config), ErrorKind::config, "dataset.max_length: 100 -> 112");
}

// max_bad_steps counts over a cut: the step before it was spoiled, the one after it too.
TEST_F(ExactResume, BadStepsInARowAreCountedOverACut) {
  Runs runs(session_, folder_.path(), {"baseline", false});
  runs.run_straight();
  const auto spoiled_again = [&](const fs::path& checkpoint) {
    arm("step.loss:nth=1=damage");
    runs.go_on(checkpoint, 10);
  };
  EXPECT_THROW(spoiled_again(runs.straight(8)), Error);
  const fs::path forgot = folder_ / "forgot" / checkpoint_at(8);
  copy_with_state(runs.straight(8), forgot, [](Json& s) { s["schedule"]["bad_in_a_row"] = 0; });
  EXPECT_NO_THROW(spoiled_again(forgot));
}

TEST_F(ExactResume, LoraOnlyCheckpointsGoOnFromTheBaseTheyName) {
  const TinyStage stage{"baseline", true};
  const std::vector<std::string> only{"checkpoint.save_lora_only=true"};
  Runs runs(session_, folder_.path(), stage);
  runs.run_straight();
  const auto small = runs.go_on(runs.straight(10), std::nullopt, only);
  EXPECT_NE(small.hash, state_hash(runs.straight(kTinySteps))) << "the base is left out";
  TinyRun part(*session_, folder_.path(), stage,
               {save_dir(folder_ / "part"), only.front(),
                "checkpoint.resume=" + runs.straight(10).string()});
  part.run(20);
  const fs::path cut = folder_ / "part" / checkpoint_at(part.trainer().state().step);
  EXPECT_EQ(runs.go_on(cut, std::nullopt, only).hash, small.hash);
  const fs::path other = folder_ / "other" / cut.filename();
  copy_with_manifest(cut, other,
                     [](checkpoint::Manifest& m) { m.fingerprints.base = std::string(64, '0'); });
  EXPECT_WMTP_ERROR(runs.go_on(other, std::nullopt, only), ErrorKind::config,
                    "the checkpoint was trained upon a base with the fingerprint 0000");
}

// What may change: the state loads, the same samples come in the same order.
TEST_F(ExactResume, PrecisionAndMicroBatchesMayChange) {
  Runs runs(session_, folder_.path(), {"baseline", false});
  runs.run_straight();
  const std::string all = "training.optimizer.precision=";
  const fs::path rounded_dir = folder_ / "rounded";
  TinyRun rounded(
      *session_, folder_.path(), {"baseline", false},
      {save_dir(rounded_dir), "checkpoint.resume=" + runs.straight(20).string(), all + "bf16_sr"});
  rounded.run(25);
  const std::int64_t step = rounded.trainer().state().step;
  EXPECT_EQ(rounded.trainer().state().cursor.samples_taken,
            static_cast<std::uint64_t>(step) * 2 % 24);
  const auto back = runs.go_on(rounded_dir / checkpoint_at(step), std::nullopt, {all + "fp32"});
  EXPECT_EQ(back.step, kTinySteps);
  TinyRun split(*session_, folder_.path(), {"baseline", false},
                {save_dir(folder_ / "split"), "checkpoint.resume=" + runs.straight(20).string(),
                 "training.batch_size=1", "training.gradient_accumulation_steps=2"});
  EXPECT_EQ(split.run(), run::RunEnd::completed);
  const run::TrainState& end = split.trainer().state();
  EXPECT_EQ(end.samples_seen, static_cast<std::uint64_t>(kTinySteps) * 2);
  const Json straight = Json::parse(slurp(runs.straight(kTinySteps) / "trainer_state.json"));
  EXPECT_EQ(Json(data::to_json(end.cursor)), straight.at("cursor"));
  // The same sums over all tokens so far, in another order (law_bounds.h).
  const auto best = straight.at("best").at("value").get<double>();
  EXPECT_WITHIN(std::abs(end.best->value - best),
                0x1p-24 * std::sqrt(static_cast<double>(end.tokens_seen)) * best);
}

// COLLECTIVE: all ranks of a launch in one folder.
void expect_cuts_on_ranks(const std::vector<TinyStage>& stages, std::int64_t every,
                          const std::vector<std::string>& common_keys = {}) {
  at::set_num_threads(1);
  auto session = comm::ProcessGroupSession::start(comm::discover(comm::process_environment()), {});
  session->connect();
  if (session->rank() == 0) make_tiny_data(worker_folder());
  session->gather_group().barrier("data");
  for (TinyStage stage : stages) {
    std::vector<std::string> keys = common_keys;
    if (stage.stage == "rho1") {
      // Against a checkpoint of the baseline, which comes before it in the list; without cached
      // signals, which another rank may have computed in other company (docs/signals.md).
      stage.reference =
          Runs(session, worker_folder(), {"baseline", stage.lora}).straight(20).string();
      keys.push_back("training.signal_cache=false");
    }
    Runs(session, worker_folder(), stage, keys).expect_all_cuts(every, false);
  }
  session->finish();
}

TEST(ExactResumeMultirank, EveryCutOfVerifiableWithAdaptersOnTwoRanks) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2, .timeout_s = 600}));
  expect_cuts_on_ranks({{"verifiable", true}}, 1);
}

TEST(ExactResumeMultirank, FiveCutsOfBaselineAndRho1OnTwoRanks) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2, .timeout_s = 600}));
  expect_cuts_on_ranks({{"baseline", false}, {"rho1", false}, {"baseline", true}, {"rho1", true}},
                       8);
}

TEST(ExactResumeMultirank, FiveCutsOfCriticAndOfWholeVerifiableOnTwoRanks) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 2, .timeout_s = 600}));
  expect_cuts_on_ranks({{"critic", false}, {"critic", true}, {"verifiable", false}}, 8);
}

TEST(ExactResumeMultirank, ThreeCutsOnFourRanks) {
  if (!is_worker()) return expect_success(launch_ranks({.ranks = 4, .timeout_s = 600}));
  expect_cuts_on_ranks({{"verifiable", false}}, 16);
}

// Every cut on so many ranks under one strategy: the long tier, a case of its own each.
class ExactResumeCellMultirank : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(ExactResumeCellMultirank, EveryCut) {
  const auto [strategy, ranks] = GetParam();
  const int every = soak_factor() >= 50 ? 1 : 13;
  if (is_worker())
    return expect_cuts_on_ranks({{"verifiable", true}}, every,
                                {fmt::format("distributed.fsdp.sharding_strategy={}", strategy)});
  if (!soak()) GTEST_SKIP() << "WMTP_SOAK is not set";
  expect_success(launch_ranks({.ranks = ranks, .timeout_s = 7200}));
  fmt::print("G11: {} cuts of {} on {} ranks go on bit-equal\n", (kTinySteps - 2) / every + 1,
             strategy, ranks);
}

INSTANTIATE_TEST_SUITE_P(LongTier, ExactResumeCellMultirank,
                         testing::Combine(testing::Values("NO_SHARD", "SHARD_GRAD_OP",
                                                          "FULL_SHARD"),
                                          testing::Range(1, 5)));

}  // namespace
}  // namespace wmtp::test
