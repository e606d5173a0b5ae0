// The parts of the report one by one: axes, smoothing, samples, data, links, and the watch over a
// folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/tracking/report/curves.h"
#include "wmtp/tracking/report/data_facts.h"
#include "wmtp/tracking/report/overview.h"
#include "wmtp/tracking/report/page.h"
#include "wmtp/tracking/report/recorded/run_watch.h"
#include "wmtp/tracking/report/sample_html.h"

namespace wmtp::tracking {
namespace {

using test::TempDir;
using test::write_file;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kOneStep = "{\"step\":1,\"time\":10,\"train/loss\":3}\n";

TEST(XAxis, PausesBeforeRestartsTakeNoTime) {
  TempDir folder;
  write_file(folder / "metrics.jsonl",
             "{\"step\":1,\"time\":100,\"train/loss\":3}\n"
             "{\"step\":2,\"time\":110,\"train/loss\":3}\n"
             "{\"step\":3,\"time\":120,\"train/loss\":3}\n{\"event\":\"resume\",\"step\":1}\n"
             "{\"step\":2,\"time\":5000,\"train/loss\":2}\n"
             "{\"step\":2,\"time\":5004,\"val/loss\":2}\n");
  const RunData run = read_run(folder.path());
  EXPECT_EQ(run.wall_time_s, 4904);
  const StepPlaces time(run, XAxis::time);
  EXPECT_EQ(time.of(1), 0);
  EXPECT_EQ(time.of(2), 20'000) << "the time of its step, not of its validation";
  EXPECT_EQ(time.of(3), std::nullopt) << "it has not been done again";
  EXPECT_EQ(unit_of(XAxis::time, 20'000).label, "time, s");
  EXPECT_EQ(unit_of(XAxis::time, 7'000'000).label, "time, min");
  EXPECT_EQ(unit_of(XAxis::time, 7'200'000).label, "time, h");
}

TEST(XAxis, TokensOfStepsBetweenReportsLieBetween) {
  RunData run;
  run.series["train/tokens_seen"] = {{10, 1000}, {20, 3000}};
  run.series["val/loss"] = {{0, 9.0}, {15, 5.0}, {25, 4.0}};
  const StepPlaces tokens(run, XAxis::tokens);
  EXPECT_EQ(tokens.of(5), 500);
  EXPECT_EQ(tokens.of(20), 3000);
  const LineChart chart = chart_of(curve_groups()[0], run, XAxis::tokens);
  ASSERT_EQ(chart.curves.size(), 1U);
  ASSERT_EQ(chart.curves[0].points.size(), 2U) << "step 25 is beyond what was told";
  EXPECT_EQ(chart.curves[0].points[0].step, 0);
  EXPECT_EQ(chart.curves[0].points[1].step, 2000);
  EXPECT_EQ(chart.x_label, "tokens");
  EXPECT_TRUE(StepPlaces(RunData{}, XAxis::tokens).empty());
}

TEST(Charts, TicksOfLogarithmicAxesAreRoundToo) {
  EXPECT_THAT(log_ticks(0.9, 11), ElementsAre(1, 2, 5, 10));
  EXPECT_EQ(log_ticks(3.1, 3.2), nice_ticks(3.1, 3.2));
  for (const double high : {1e3, 1e9, 1e30, 1e300}) {
    const auto ticks = log_ticks(1e-3, high);
    EXPECT_GE(ticks.size(), 2U);
    EXPECT_LE(ticks.size(), 10U);
    EXPECT_GE(ticks.front(), 1e-3);
    EXPECT_LE(ticks.back(), high);
  }
}

TEST(Charts, ALogarithmicDrawingLeavesOutWhatIsNotAboveZero) {
  LineChart chart{
      .title = "t", .x_label = "step", .curves = {{"a", {{1, 1}, {2, 0}, {3, 100}, {4, 10}}}}};
  chart.log_y = true;
  const std::string svg = chart_drawing(chart);
  // 10 lies half way between 1, at the bottom (178), and 100, at the top (10).
  EXPECT_THAT(svg, HasSubstr("points=\"58.0,178.0\""));
  EXPECT_THAT(svg, HasSubstr("348.0,94.0\""));
  chart.curves = {{"a", {{1, 0}, {2, -1}}}};
  EXPECT_EQ(chart_drawing(chart), "");
}

TEST(Charts, ARunningMeanKeepsATrendAndItsGaps) {
  Series line;
  for (int i = 0; i < 200; ++i) line.push_back({i, 3.0 * i + (i % 2 == 0 ? 40 : -40)});
  const Series mean = running_mean(line);
  for (int i = 10; i < 190; ++i) EXPECT_NEAR(mean[i].value, 3.0 * i, 40.0 / 11 + 1e-9);
  line[50].value = std::nan("");
  const Series gap = running_mean(line);
  EXPECT_TRUE(std::isnan(gap[50].value));
  EXPECT_TRUE(std::isfinite(gap[51].value));
}

TEST(Page, LossesAreDrawnInSixFormsUnderOneLegendAndValidationsAreNotSmoothed) {
  RunData run;
  run.name = "a";
  for (int i = 1; i <= 30; ++i) {
    run.series["train/loss"].push_back({i, 3.0 / i});
    run.series["train/tokens_seen"].push_back({i, 100.0 * i});
    run.time_s.push_back({i, 2.0 * i});
  }
  run.series["val/loss"] = {{10, 1.0}, {20, 0.5}};
  const std::string page = report_page({run});
  for (const char* form : {"x0 y0", "x0 y1", "x1 y0", "x1 y1", "x2 y0", "x2 y1"})
    EXPECT_THAT(page, HasSubstr(std::string("<div class=\"form ") + form + "\"><svg"));
  EXPECT_THAT(page, HasSubstr("id=\"x0\" checked=\"checked\""));
  const auto count = [&page](std::string_view part) {
    std::size_t found = 0;
    for (std::size_t at = page.find(part); at != page.npos; at = page.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("<g class=\"smooth\">"), 6U);
  EXPECT_EQ(count(">train/loss <b>"), 1U);
  run.series.erase("train/tokens_seen");
  EXPECT_THAT(report_page({run}), Not(HasSubstr("for=\"x1\"")));
}

DecodedSample sample_of(std::int64_t step, std::uint64_t id, std::optional<bool> correct) {
  return {
      .step = step,
      .stage = "critic",
      .tokens = {{.text = "q"}, {.text = "a" + std::to_string(id), .is_target = true, .weight = 1}},
      .split = "validation",
      .id = id,
      .correct = correct};
}

TEST(Samples, TheSameRowIsShownFirstAndLastAndARightOneBesideAWrongOne) {
  RunData run;
  run.samples = {sample_of(0, 4, true), sample_of(0, 7, false), sample_of(9, 4, true),
                 sample_of(9, 7, false)};
  const auto histories = sample_histories(run);
  ASSERT_EQ(histories.size(), 2U);
  EXPECT_EQ(histories[0].first, &run.samples[0]);
  EXPECT_EQ(histories[0].last, &run.samples[2]);
  EXPECT_EQ(histories[1].last, &run.samples[3]);
  EXPECT_EQ(sample_place(run.samples[0]), "sample 4 of dataset.validation");
  EXPECT_EQ(sample_place(sample_of(0, (std::uint64_t{1} << 40) + 3, {})),
            "sample 3 of file 2 of dataset.validation");
  const std::string page = samples_html({run});
  EXPECT_THAT(page, HasSubstr("<span class=\"right\">✓ right</span>"));
  EXPECT_THAT(page, HasSubstr("<span class=\"wrong\">✗ wrong</span>"));
  run.samples[1].correct = run.samples[3].correct = true;
  EXPECT_EQ(sample_histories(run).size(), 1U);
}

TEST(Samples, OlderRunsAreToldApartByTheirTexts) {
  RunData run;
  for (const std::int64_t step : {0, 9})
    for (const std::uint64_t id : {1, 2}) {
      run.samples.push_back(sample_of(step, id, {}));
      run.samples.back().id.reset();
    }
  const auto histories = sample_histories(run);
  ASSERT_EQ(histories.size(), 1U);
  EXPECT_EQ(histories[0].last, &run.samples[2]);
}

TEST(Samples, ACriticIsShadedByValueOnOneScale) {
  RunData run;
  run.samples = {sample_of(0, 4, true), sample_of(9, 4, true)};
  run.samples[0].tokens[1].value = -1;
  run.samples[1].tokens[1].value = 3;
  const std::string page = samples_html({run});
  EXPECT_THAT(page, HasSubstr("--w:0.00\" title=\"token 1: weight 1, value -1\""));
  EXPECT_THAT(page, HasSubstr("--w:1.00\" title=\"token 1: weight 1, value 3\""));
  EXPECT_THAT(page, HasSubstr("shaded from value -1 "));
  run.samples[0].tokens[1].weight = run.samples[1].tokens[1].weight = 0.5;
  EXPECT_THAT(samples_html({run}), HasSubstr("shaded from weight 0 "));
}

TEST(Data, WhatTheRunSaysOfItsSets) {
  TempDir folder;
  write_file(folder / "metrics.jsonl", kOneStep);
  write_file(folder / "environment.json",
             "{\"data\":{\"train\":{\"rows\":100,\"samples\":40,\"correct\":30,\"incorrect\":10,"
             "\"truncated_rows\":{\"correct\":2,\"incorrect\":3},\"bad_lines\":1,"
             "\"lengths\":{\"p50\":12,\"p90\":20,\"max\":64,\"tokens\":500,\"targets\":300}}}}");
  const std::vector<RunData> runs{read_run(folder.path())};
  EXPECT_THAT(data_cells(runs[0]), ElementsAre(ElementsAre("train", "100", "40", "500", "300", "12",
                                                           "20", "64", "5", "1", "30", "10")));
  EXPECT_EQ(report_json(runs)["runs"][0]["data"]["train"]["truncated_rows"], 5);
  EXPECT_THAT(report_page(runs), HasSubstr("<h2>Data</h2>"));
  EXPECT_THAT(report_text(runs, false), HasSubstr("drawn wrong"));
}

TEST(Links, TheRunOnItsServerWithoutAnythingSecret) {
  TempDir folder;
  write_file(folder / "metrics.jsonl", kOneStep);
  write_file(folder / "config.yaml",
             "mlflow: {spool_dir: elsewhere/spool}\n"
             "tracking: {tensorboard: true, tensorboard_dir: runs/a/tb}\n");
  std::filesystem::create_directories(folder / "spool/uid1");
  const auto link = [&](const char* uri, const char* id) {
    write_file(folder / "spool/uid1/run.json",
               std::string("{\"run_uid\":\"uid1\",\"experiment\":\"<e>\",\"tracking_uri\":\"") +
                   uri + "\",\"run_id\":\"" + id + "\",\"experiment_id\":\"3\"}");
    return read_run(folder.path());
  };
  const RunData run = link("https://user:secret@mlflow.example:5000/base/?key=secret", "abc1");
  ASSERT_EQ(run.links.size(), 2U);
  EXPECT_EQ(run.links[0].url, "https://mlflow.example:5000/base/#/experiments/3/runs/abc1");
  EXPECT_EQ(run.links[1].text, "tensorboard --logdir runs/a/tb");
  const std::string page = report_page({run});
  EXPECT_THAT(page,
              HasSubstr("<a href=\"https://mlflow.example:5000/base/#/experiments/3/runs/abc1\""));
  EXPECT_THAT(page, Not(HasSubstr("secret")));
  EXPECT_THAT(page, HasSubstr("experiment &lt;e&gt;"));
  EXPECT_EQ(link("javascript:alert(1)", "abc1").links[0].url, "");
  EXPECT_EQ(link("https://mlflow.example", "a\\\" onclick=").links[0].url, "");
}

TEST(RunState, ARunHasEndedWhenItSaysSo) {
  TempDir folder;
  write_file(folder / "metrics.jsonl", kOneStep);
  EXPECT_EQ(state_text(read_run(folder.path())), "not ended");
  write_file(folder / "last_exit.json", "{\"code\":75,\"reason\":\"lost rank 1\",\"step\":1}");
  const RunData run = read_run(folder.path());
  EXPECT_TRUE(run.has_ended());
  EXPECT_EQ(state_text(run), "ended with 75: lost rank 1");
  EXPECT_EQ(report_json({run})["runs"][0]["state"], state_text(run));
  write_file(folder / "last_exit.json", "{\"code\":0,\"reason\":\"completed\",\"step\":1}");
  EXPECT_EQ(state_text(read_run(folder.path())), "ended");
  write_file(folder / "last_exit.json", "{\"code\":\"0\"}");
  EXPECT_WMTP_ERROR(read_run(folder.path()), ErrorKind::data, "\"code\" is no integer");
}

TEST(RunWatch, ARunWhoseLockIsNoLongerTouchedIsGone) {
  TempDir folder;
  write_file(folder / "metrics.jsonl", kOneStep);
  RunWatch watch(folder.path());
  Clock::time_point now{};
  const auto second = std::chrono::seconds(1);
  EXPECT_TRUE(watch.look(now));
  EXPECT_FALSE(watch.look(now += kSilenceLimit + second));
  EXPECT_FALSE(watch.is_gone(now)) << "there is no lock to look at";
  std::filesystem::create_directories(folder / "checkpoints");
  write_file(folder / "checkpoints/model.lock", "host 1");
  EXPECT_FALSE(watch.look(now)) << "no report reads it";
  EXPECT_FALSE(watch.look(now += kSilenceLimit));
  EXPECT_FALSE(watch.is_gone(now));
  EXPECT_FALSE(watch.look(now += second));
  EXPECT_TRUE(watch.is_gone(now));
  write_file(folder / "metrics.jsonl", std::string(kOneStep) + kOneStep);
  EXPECT_TRUE(watch.look(now));
  EXPECT_FALSE(watch.is_gone(now));
}

TEST(RunWatch, FilesOutsideTheFolderAreNotItsOwn) {
  TempDir folder, elsewhere;
  write_file(folder / "metrics.jsonl", kOneStep);
  write_file(elsewhere / "secret", "{}");
  std::filesystem::create_symlink("metrics.jsonl", folder / "histograms.jsonl");
  EXPECT_NO_THROW(require_own_files(folder.path()));
  std::filesystem::create_symlink(elsewhere / "secret", folder / "environment.json");
  EXPECT_WMTP_ERROR(require_own_files(folder.path()), ErrorKind::data,
                    "environment.json is a link");
}

}  // namespace
}  // namespace wmtp::tracking
