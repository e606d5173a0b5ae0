// The lines are a contract with log watchers: exact.
#include "wmtp/tracking/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "wmtp/tracking/progress_bar.h"
#include "wmtp/tracking/run_files.h"
#include "wmtp/tracking/table.h"

namespace wmtp::tracking {
namespace {

Progress sample_progress() {
  Progress p;
  p.step = 1240;
  p.num_steps = 3000;
  p.epoch = 1.24;
  p.num_epochs = 3;
  p.loss = 1.23412;
  p.learning_rate = 9.8e-5;
  p.grad_norm = 0.83;
  p.samples_per_sec = 9.1;
  p.tokens_per_sec = 18211;
  p.mfu = 0.42;
  p.memory_used_gib = 61.2;
  p.memory_limit_gib = 80;
  return p;
}

TEST(Lines, AStepAsTheSpecificationHasIt) {
  EXPECT_EQ(step_line(sample_progress(), 3 * 3600 + 12 * 60 + 4),
            "Step 1240/3000 (epoch 1.24) | Loss: 1.23412 | lr: 9.80e-05 | grad_norm: 0.83 | "
            "Speed: 9.10 samples/sec, 18211 tokens/sec | MFU: 0.42 | memory: 61.2/80.0 GiB | "
            "ETA: 3:12:04");
}

TEST(Lines, WhatIsNotKnownIsLeftOut) {
  Progress p = sample_progress();
  p.mfu.reset();
  p.memory_limit_gib.reset();
  EXPECT_EQ(step_line(p, {}),
            "Step 1240/3000 (epoch 1.24) | Loss: 1.23412 | lr: 9.80e-05 | grad_norm: 0.83 | "
            "Speed: 9.10 samples/sec, 18211 tokens/sec | memory: 61.2 GiB");
  p.memory_used_gib.reset();
  p.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(step_line(p, {}),
            "Step 1240/3000 (epoch 1.24) | Loss: nan | lr: 9.80e-05 | grad_norm: 0.83 | "
            "Speed: 9.10 samples/sec, 18211 tokens/sec");
}

TEST(Lines, ValidationCheckpointsAndTheEnd) {
  EXPECT_EQ(validation_line(
                {.step = 1240, .loss = 0.95012, .perplexity = std::exp(0.95012), .others = {}}),
            "Step 1240 Validation Loss: 0.95012 | ppl: 2.586");
  EXPECT_EQ(
      validation_line(
          {.step = 3, .loss = 0.25, .perplexity = {}, .others = {{"pairwise_accuracy", 0.9731}}}),
      "Step 3 Validation Loss: 0.25000 | pairwise_accuracy: 0.9731");
  EXPECT_EQ(saving_line(1240), "Saving checkpoint at step 1240");
  EXPECT_EQ(saved_line({1240, "llama-1240steps", 2.1, 0.06}),
            "Saved checkpoint llama-1240steps in 2.1 s (blocked 0.06 s)");
  EXPECT_EQ(resumed_line({1200, "llama-1200steps", 4, 3}),
            "Resumed from llama-1200steps (saved by 4 ranks, now 3)");
  RunSummary summary;
  summary.step = 3000;
  EXPECT_EQ(completion_line(summary), "Training completed: step 3000");
  summary.best = Best{"val/loss", 0.941, 2800};
  EXPECT_EQ(completion_line(summary), "Training completed: step 3000, best val/loss 0.941 at 2800");
  summary.status = "stopped";
  EXPECT_EQ(completion_line(summary), "Training stopped: step 3000, best val/loss 0.941 at 2800");
}

TEST(Lines, JsonHasNoNumbersThatJsonDoesNotHave) {
  Progress p = sample_progress();
  p.loss = std::numeric_limits<double>::infinity();
  p.grad_norm = std::numeric_limits<double>::quiet_NaN();
  const OrderedJson line = step_json(p, {});
  EXPECT_EQ(line["loss"], "Infinity");
  EXPECT_EQ(line["grad_norm"], "NaN");
  EXPECT_FALSE(line.contains("eta_s"));
  EXPECT_EQ(line["mfu"], 0.42);
}

BarState full_state() {
  BarState state;
  state.stage = "verifiable";
  state.progress = sample_progress();
  state.progress.unweighted_loss = 1.3;
  state.progress.num_ranks = 4;
  state.progress.data_wait_ratio = 0.02;
  state.eta_s = 11524;
  state.next_save_eta_s = 75;
  state.saved_step = 1200;
  state.saved_age_s = 192;
  return state;
}

TEST(Bar, ShowsEveryNumberAndFillsTheLine) {
  const auto lines = bar_lines(full_state(), {.columns = 100});
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0],
            "verifiable epoch 1.24/3 step 1240/3000 [################-------------------------] "
            "41 % ETA 3:12:04");
  EXPECT_EQ(lines[1],
            "loss 1.2341 (unweighted 1.3000) | lr 9.80e-05 | grad 0.83 | 4553 tok/s/rank | "
            "MFU 0.42");
  EXPECT_EQ(lines[2],
            "mem 61.2/80.0 GiB | data wait 2 % | saved 1200 3:12 ago | next save in 1:15");
}

TEST(Bar, NeverWiderThanTheScreen) {
  for (std::size_t columns = 20; columns <= 240; ++columns)
    for (const bool unicode : {false, true})
      for (const std::string& line : bar_lines(full_state(), {columns, false, unicode}))
        EXPECT_LT(display_width(line), columns) << line;
}

TEST(Bar, LeavesOutTheLeastImportantFirst) {
  const auto lines = bar_lines(full_state(), {.columns = 60});
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0], "verifiable step 1240/3000 [#####---------] 41 % ETA 3:12:04");
  EXPECT_EQ(lines[1], "loss 1.2341 (unweighted 1.3000) | lr 9.80e-05 | grad 0.83");
  EXPECT_EQ(lines[2], "4553 tok/s/rank | mem 61.2/80.0 GiB | data wait 2 %");
  EXPECT_EQ(bar_lines(full_state(), {.columns = 40})[0], "step 1240/3000 41 % ETA 3:12:04");
  BarState validating = full_state();
  validating.validating = ValidationProgress{.step = 1240, .num_done = 15, .num_batches = 25};
  EXPECT_EQ(bar_lines(validating, {.columns = 60})[0],
            "verifiable validation at step 1240 [##########-------] 60 %");
  for (std::size_t columns = 20; columns <= 240; ++columns)
    EXPECT_LE(bar_lines(full_state(), {.columns = columns}).size(), 3U) << columns;
}

TEST(Bar, ColourChangesNothingButTheColour) {
  auto strip = [](std::string text) {
    for (std::size_t at; (at = text.find('\x1b')) != std::string::npos;)
      text.erase(at, text.find('m', at) - at + 1);
    return text;
  };
  const auto plain = bar_lines(full_state(), {.columns = 80});
  const auto colored = bar_lines(full_state(), {.columns = 80, .color = true});
  ASSERT_EQ(plain.size(), colored.size());
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(strip(colored[i]), plain[i]);
  EXPECT_NE(colored[0], plain[0]);
}

TEST(Bar, EmptyAndFull) {
  BarState state = full_state();
  state.progress.step = 0;
  EXPECT_NE(bar_lines(state, {.columns = 100})[0].find("[----"), std::string::npos);
  state.progress.step = 3000;
  EXPECT_EQ(bar_lines(state, {.columns = 100})[0].find('-'), std::string::npos);
  EXPECT_NE(bar_lines(state, {.columns = 100})[0].find("] 100 %"), std::string::npos);
  state.progress.num_steps = 0;  // not known
  EXPECT_NE(bar_lines(state, {.columns = 100})[0].find("] 0 %"), std::string::npos);
}

TEST(TextTable, ColumnsAlignNumbersToTheRight) {
  Table table({"run", "steps", "loss"});
  table.add_row({"größer", "5", "1.25"});
  table.add_row({"b", "1000", "-"});
  EXPECT_EQ(table.text(),
            "run     steps  loss\n"
            "größer      5  1.25\n"
            "b        1000     -\n");
  EXPECT_EQ(table.text(true).find("\x1b[1mrun"), 0U);
}

}  // namespace
}  // namespace wmtp::tracking
