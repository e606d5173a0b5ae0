// What of the saved state a resumed run needs: whatever item is left out is noticed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "run/edited_checkpoint.h"
#include "run/resumed_runs.h"

namespace wmtp::test {
namespace {

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
      {"recent losses", [](Json& s) { s.erase("loss_watch"); }},
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
      const auto end = runs.check_cancelled(checkpoint, step + 1);
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
  const auto end = runs.check_cancelled(copy, 23);
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

// max_bad_steps counts over a cut: the step before it was spoiled, the one after it too.
TEST_F(ExactResume, BadStepsInARowAreCountedOverACut) {
  Runs runs(session_, folder_.path(), {"baseline", false});
  runs.run_straight();
  const auto spoiled_again = [&](const fs::path& checkpoint) {
    arm("step.loss:nth=1=damage");
    runs.check_cancelled(checkpoint, 10);
  };
  EXPECT_THROW(spoiled_again(runs.straight(8)), Error);
  const fs::path forgot = folder_ / "forgot" / checkpoint_at(8);
  copy_with_state(runs.straight(8), forgot, [](Json& s) { s["schedule"]["bad_in_a_row"] = 0; });
  EXPECT_NO_THROW(spoiled_again(forgot));
}

}  // namespace
}  // namespace wmtp::test
