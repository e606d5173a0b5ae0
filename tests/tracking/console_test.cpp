#include "wmtp/tracking/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "wmtp/core/log.h"

namespace wmtp::tracking {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::size_t count_of(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// What a terminal shows in the end: carriage return, cursor up, erase to the end of the line and
// below; marks of drawings change nothing.
std::vector<std::string> screen_of(const std::string& bytes) {
  std::vector<std::string> rows(1);
  std::size_t row = 0, column = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '\n') {
      if (++row == rows.size()) rows.emplace_back();
      column = 0;
    } else if (bytes[i] == '\r') {
      column = 0;
    } else if (bytes[i] == '\x1b') {
      const std::size_t end = bytes.find_first_of("AKJhl", i);
      const int number = std::atoi(bytes.c_str() + i + 2);
      if (bytes[end] == 'A') row -= static_cast<std::size_t>(number);
      if (bytes[end] == 'K') rows[row].resize(std::min(rows[row].size(), column));
      if (bytes[end] == 'J') {
        rows[row].resize(std::min(rows[row].size(), column));
        rows.resize(row + 1);
      }
      i = end;
    } else {
      rows[row].resize(std::max(rows[row].size(), column + 1), ' ');
      rows[row][column++] = bytes[i];
    }
  }
  return rows;
}

class ConsoleTest : public ::testing::Test {
 protected:
  ConsoleOptions options(ConsoleMode mode) {
    ConsoleOptions made;
    made.mode = mode;
    made.stage = "baseline";
    made.now_s = [this] { return now_s_; };
    return made;
  }
  static Progress at(std::int64_t step) {
    Progress p;
    p.step = step;
    p.num_steps = 100;
    p.loss = 1;
    p.step_time_s = 0.5;
    p.remaining = {.num_steps = 100 - step};
    return p;
  }

  double now_s_ = 1000;
  std::ostringstream out_;
};

TEST_F(ConsoleTest, ModeFollowsTheWishAndThePlace) {
  using Wish = config::Progress;
  EXPECT_EQ(choose_mode(Wish::automatic, {.on_terminal = true}), ConsoleMode::bar);
  EXPECT_EQ(choose_mode(Wish::automatic, {}), ConsoleMode::lines);
  EXPECT_EQ(choose_mode(Wish::automatic, {.on_terminal = true, .under_slurm = true}),
            ConsoleMode::lines);
  EXPECT_EQ(choose_mode(Wish::lines, {.on_terminal = true}), ConsoleMode::lines);
  EXPECT_EQ(choose_mode(Wish::bar, {}), ConsoleMode::bar);
  EXPECT_EQ(choose_mode(Wish::off, {.on_terminal = true}), ConsoleMode::off);
  EXPECT_EQ(choose_mode(Wish::bar, {.json = true, .on_terminal = true}), ConsoleMode::json);
}

TEST_F(ConsoleTest, LinesEveryIntervalAndOnlyForStepsThatHappened) {
  Console console(out_, options(ConsoleMode::lines));
  for (int step = 1; step <= 35; ++step) console.progress(at(step));
  const auto lines = lines_of(out_.str());
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[0], HasSubstr("Step 10/100 "));
  EXPECT_THAT(lines[2], HasSubstr("Step 30/100 "));
  EXPECT_THAT(lines[2], HasSubstr("| Loss: 1.00000 |"));
  EXPECT_THAT(lines[2], HasSubstr("| ETA: 35.0 s"));
}

TEST_F(ConsoleTest, SlowStepsAreToldOnceAMinute) {
  Console console(out_, options(ConsoleMode::lines));
  for (int step = 1; step <= 9; ++step) {
    now_s_ += 25;
    console.progress(at(step));
  }
  const auto lines = lines_of(out_.str());
  ASSERT_EQ(lines.size(), 3U);  // after 75, 150 and 225 s
  EXPECT_THAT(lines[0], HasSubstr("Step 3/100 "));
  EXPECT_THAT(lines[1], HasSubstr("Step 6/100 "));
  EXPECT_THAT(lines[2], HasSubstr("Step 9/100 "));
}

TEST_F(ConsoleTest, NoTerminalNoCursorMovement) {
  Console console(out_, options(ConsoleMode::lines));
  console.resumed({5, "m-5steps", 2, 1});
  for (int step = 6; step <= 20; ++step) console.progress(at(step));
  console.saving(20);
  console.saved({20, "m-20steps", 1.5, 0.1});
  console.validation({.step = 20, .loss = 2, .perplexity = {}, .others = {}});
  console.finished({});
  EXPECT_EQ(out_.str().find('\x1b'), std::string::npos);
  EXPECT_EQ(out_.str().find('\r'), std::string::npos);
  EXPECT_THAT(out_.str(), HasSubstr("\nSaving checkpoint at step 20\nSaved checkpoint m-20steps "));
  EXPECT_EQ(out_.str().find("Resumed from m-5steps (saved by 2 ranks, now 1)\n"), 0U);
}

TEST_F(ConsoleTest, TheBarIsDrawnAtMostFiveTimesASecond) {
  Console console(out_, options(ConsoleMode::bar));
  for (int step = 1; step <= 100; ++step) {
    console.progress(at(step));
    now_s_ += 0.01;
  }
  const std::size_t drawn = count_of(out_.str(), "baseline epoch");
  EXPECT_GE(drawn, 4U);
  EXPECT_LE(drawn, 6U);  // in one second, both ends counted
}

TEST_F(ConsoleTest, LinesStandAboveTheBarAndTheBarLeavesNothingBehind) {
  {
    Console console(out_, options(ConsoleMode::bar));
    console.progress(at(1));
    now_s_ += 1;
    console.progress(at(2));
    console.validation({.step = 2, .loss = 2, .perplexity = {}, .others = {}});
    now_s_ += 1;
    console.progress(at(3));
    const auto rows = screen_of(out_.str());
    EXPECT_EQ(rows[0], "Step 2 Validation Loss: 2.00000");
    EXPECT_THAT(rows[1], HasSubstr("step 3/100"));
    EXPECT_EQ(count_of(out_.str().substr(out_.str().rfind("step 3/100")), "step "), 1U);
  }
  EXPECT_EQ(screen_of(out_.str()),
            (std::vector<std::string>{"Step 2 Validation Loss: 2.00000", ""}));
}

TEST_F(ConsoleTest, ALogLineTakesTheBarOffTheScreen) {
  Console console(out_, options(ConsoleMode::bar));
  console.progress(at(1));
  EXPECT_GT(screen_of(out_.str()).size(), 1U);
  log::warn("test", "a line of the logger");
  EXPECT_EQ(screen_of(out_.str()), (std::vector<std::string>{""}));
}

TEST_F(ConsoleTest, TheWidthIsAskedAgainBeforeEachDrawing) {
  std::size_t columns = 100;
  ConsoleOptions resized = options(ConsoleMode::bar);
  resized.columns = [&columns] { return columns; };
  Console console(out_, resized);
  console.progress(at(1));
  EXPECT_EQ(screen_of(out_.str())[0].size(), 99U);
  columns = 60;
  now_s_ += 1;
  console.progress(at(2));
  for (const std::string& row : screen_of(out_.str())) EXPECT_LT(row.size(), 60U) << row;
}

TEST_F(ConsoleTest, AValidationMovesTheBar) {
  Console console(out_, options(ConsoleMode::bar));
  console.validating({.step = 0, .num_done = 0, .num_batches = 8});  // before the first step
  EXPECT_THAT(screen_of(out_.str())[0], HasSubstr("baseline validation at step 0 [-----"));
  console.progress(at(1));
  for (int done = 0; done <= 2; ++done) {
    now_s_ += 1;
    console.validating({.step = 1, .num_done = done, .num_batches = 8});
  }
  const auto rows = screen_of(out_.str());
  EXPECT_THAT(rows[0], HasSubstr("] 25 % 2/8 batches"));
  EXPECT_THAT(rows[1], HasSubstr("loss 1.0000"));
}

TEST_F(ConsoleTest, ALongValidationIsToldEveryTenSeconds) {
  Console console(out_, options(ConsoleMode::lines));
  for (int validation = 0; validation < 2; ++validation) {
    for (int done = 0; done <= 8; ++done) {
      console.validating({.step = 5, .num_done = done, .num_batches = 8});
      now_s_ += 3;
    }
    console.validation({.step = 5, .loss = 2, .perplexity = {}, .others = {}});
  }
  const auto lines = lines_of(out_.str());
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(lines[0], "Step 5 Validating: 4 of 8 batches (50 %)");
  EXPECT_EQ(lines[1], "Step 5 Validating: 8 of 8 batches (100 %)");
  EXPECT_EQ(lines[2], "Step 5 Validation Loss: 2.00000");
  EXPECT_EQ(lines[3], lines[0]);
}

TEST_F(ConsoleTest, OffTellsNoStepsButTheRest) {
  Console console(out_, options(ConsoleMode::off));
  for (int step = 1; step <= 50; ++step) console.progress(at(step));
  EXPECT_EQ(out_.str(), "");
  console.saved({50, "m-50steps", 1, 0});
  EXPECT_THAT(out_.str(), HasSubstr("Saved checkpoint"));
}

TEST_F(ConsoleTest, JsonLinesOnly) {
  Console console(out_, options(ConsoleMode::json));
  console.resumed({5, "m-5steps", 2, 1});
  console.sample({.step = 0, .stage = "rho1", .tokens = {{.text = "a"}}});
  for (int step = 6; step <= 20; ++step) console.progress(at(step));
  console.saving(20);
  console.saved({20, "m-20steps", 1.5, 0.1});
  console.validation({.step = 20, .loss = 2, .perplexity = 7.39, .others = {{"auc", 0.5}}});
  console.text("not for machines");
  RunSummary summary;
  summary.step = 20;
  summary.best = Best{"val/loss", 2, 20};
  console.finished(summary);
  std::string types;
  for (const std::string& text : lines_of(out_.str())) {
    const Json line = Json::parse(text);
    EXPECT_TRUE(line.contains("ts")) << text;
    types += line["type"].get<std::string>() + " ";
    if (line["type"] == "result") {
      EXPECT_EQ(line["best"]["value"], 2);
    }
    if (line["type"] == "eval") {
      EXPECT_EQ(line["perplexity"], 7.39);
      EXPECT_EQ(line["auc"], 0.5);
    }
  }
  EXPECT_EQ(types, "checkpoint step step checkpoint eval result ");
}

TEST_F(ConsoleTest, TheEndNamesStatusBestModelAndNextCommandBeforeTheNumbers) {
  Console console(out_, options(ConsoleMode::lines));
  RunSummary summary;
  summary.experiment = "demo";
  summary.stage = "rho1";
  summary.step = summary.num_steps = 20;
  summary.best = Best{"val/loss", 0.941, 15};
  summary.last = {{"train/loss", 1.5}};
  summary.paths = {{"final", "runs/demo/final"}, {"metrics", "runs/demo/metrics.jsonl"}};
  summary.next = "wmtp report runs/demo";
  summary.timings_s = {{"training", 61}};
  summary.counts = {{"tokens", 123456}};
  console.finished(summary);
  EXPECT_EQ(out_.str(),
            "Training completed: step 20, best val/loss 0.941 at 15\n"
            "\n"
            "status         completed, 20 of 20 steps\n"
            "best val/loss  0.941 at step 15\n"
            "final          runs/demo/final\n"
            "next           wmtp report runs/demo\n"
            "\n"
            "run         demo\n"
            "stage       rho1\n"
            "train/loss  1.5\n"
            "training    1:01\n"
            "tokens      123456\n"
            "metrics     runs/demo/metrics.jsonl\n");
}

}  // namespace
}  // namespace wmtp::tracking
