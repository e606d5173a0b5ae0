#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/report/chart.h"
#include "wmtp/tracking/report/curves.h"
#include "wmtp/tracking/report/overview.h"
#include "wmtp/tracking/report/page.h"

namespace wmtp::tracking {
namespace {

using test::TempDir;
using test::write_file;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kTwoSteps =
    "{\"step\":1,\"time\":10,\"train/loss\":3}\n{\"step\":2,\"time\":20,\"train/loss\":2}\n";

TEST(ReadRun, TheLastLineOfARepeatedStepCounts) {
  TempDir folder;
  write_file(folder / "metrics.jsonl", std::string(kTwoSteps) +
                                           "{\"step\":2,\"time\":21,\"val/loss\":5}\n"
                                           "{\"step\":3,\"time\":30,\"train/loss\":9}\n"
                                           "{\"event\":\"resume\",\"step\":1}\n"
                                           "{\"step\":2,\"time\":40,\"train/loss\":2.5}\n");
  const RunData run = read_run(folder.path());
  const Series& losses = *run.find("train/loss");
  ASSERT_EQ(losses.size(), 3U);
  EXPECT_EQ(losses[1].value, 2.5);
  EXPECT_EQ(losses[2].value, 9);
  EXPECT_EQ(run.last("val/loss"), 5);
  EXPECT_EQ(run.restarts, std::vector<std::int64_t>{1});
  EXPECT_EQ(run.wall_time_s, 30);
  EXPECT_EQ(run.best->value, 5);
}

TEST(ReadRun, EventsAreListedOnceAndEscaped) {
  TempDir folder;
  const std::string spike =
      "{\"event\":\"loss_spike\",\"step\":2,\"time\":20.5,\"text\":\"the loss is <9>\",\"z\":12}\n";
  write_file(folder / "metrics.jsonl",
             kTwoSteps + spike + "{\"event\":\"resume\",\"step\":1}\n" + spike);
  const RunData run = read_run(folder.path());
  EXPECT_EQ(run.events, (std::vector<NotedEvent>{{2, "loss_spike", "the loss is <9>"}}));
  EXPECT_THAT(report_page({run}), HasSubstr("<li>step 2: the loss is &lt;9&gt;</li>"));
  EXPECT_THAT(report_text({run}, false), HasSubstr("step 2: the loss is <9>\n"));
  EXPECT_EQ(report_json({run})["runs"][0]["events"][0]["event"], "loss_spike");
}

TEST(ReadRun, LinesCutOffByAKillAreLeftOutWithANotice) {
  TempDir folder;
  write_file(folder / "metrics.jsonl",
             "{\"step\":1,\"time\":10,\"train/loss\":3}\n{\"step\":2,\"time\n"
             "{\"event\":\"resume\",\"step\":1}\n{\"step\":2,\"time\":20,\"train/loss\":2}\n{\"st");
  const RunData run = read_run(folder.path());
  EXPECT_EQ(run.find("train/loss")->size(), 2U);
  ASSERT_EQ(run.notices.size(), 2U);
  EXPECT_THAT(run.notices[0], HasSubstr("metrics.jsonl:2: left out"));
  EXPECT_THAT(run.notices[1], HasSubstr("metrics.jsonl:5: left out"));
}

TEST(ReadRun, DamageIsNamedWithFileAndLine) {
  TempDir folder;
  const auto metrics = folder / "metrics.jsonl";
  auto expect = [&](const std::string& text, const char* part) {
    write_file(metrics, text);
    EXPECT_WMTP_ERROR(read_run(folder.path()), ErrorKind::data, part);
  };
  EXPECT_WMTP_ERROR(read_run(folder / "nowhere"), ErrorKind::config, "is no folder");
  EXPECT_WMTP_ERROR(read_run(folder.path()), ErrorKind::data, "has no metrics.jsonl");
  expect("", "no step was recorded");
  expect("{\"event\":\"resume\",\"step\":1}\n", "no step was recorded");
  expect(std::string(kTwoSteps) + "garbage\n", "metrics.jsonl:3");
  expect("[1]\n", "metrics.jsonl:1: the line is no JSON object");
  expect("{\"time\":1,\"x\":1}\n", "metrics.jsonl:1: \"step\" is missing");
  expect("{\"step\":1.5,\"time\":1}\n", "\"step\" is no integer");
  expect("{\"step\":1,\"time\":1,\"x\":\"big\"}\n", "\"x\" is no number");
  expect("{\"step\":1,\"time\":1,\"x\":1,\"x\":2}\n", "duplicate key");
  write_file(metrics, kTwoSteps);
  write_file(folder / "histograms.jsonl",
             "{\"step\":1,\"name\":\"w\",\"edges\":[0,1],\"counts\":[1,2]}\n");
  EXPECT_WMTP_ERROR(read_run(folder.path()), ErrorKind::data, "2 edges do not bound 2 counts");
  std::filesystem::remove(folder / "histograms.jsonl");
  write_file(folder / "samples.jsonl", "{\"step\":1,\"stage\":\"x\",\"tokens\":[3]}\n");
  EXPECT_WMTP_ERROR(read_run(folder.path()), ErrorKind::data, "samples.jsonl:1");
}

TEST(Charts, TicksAreRoundAndInside) {
  EXPECT_EQ(nice_ticks(0, 10), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(nice_ticks(-1, 1), (std::vector<double>{-1, -0.5, 0, 0.5, 1}));
  for (const double scale : {1e-300, 1e-9, 0.3, 7.0, 1e12, 1e299}) {
    const auto ticks = nice_ticks(-0.7 * scale, 1.1 * scale);
    EXPECT_GE(ticks.size(), 2U);
    EXPECT_LE(ticks.size(), 8U);
    for (const double tick : ticks) {
      EXPECT_GE(tick, -0.7 * scale);
      EXPECT_LE(tick, 1.1 * scale * (1 + 1e-9));
    }
  }
}

TEST(Charts, ThinningKeepsEndsOfTheRange) {
  Series points;
  for (int i = 0; i < 100'000; ++i) points.push_back({i, i == 51'234 ? 99.0 : i % 7 * 0.1});
  const Series thin = thinned(points, 300);
  EXPECT_LE(thin.size(), 600U);
  EXPECT_TRUE(std::any_of(thin.begin(), thin.end(), [](auto& p) { return p.value == 99; }));
  EXPECT_TRUE(
      std::is_sorted(thin.begin(), thin.end(), [](auto& a, auto& b) { return a.step < b.step; }));
}

TEST(Charts, NothingButFiniteCoordinates) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const std::string svg =
      to_svg(LineChart{"t",
                       "step",
                       {{"a", {{1, 1e308}, {2, -1e308}, {3, nan}, {4, inf}, {5, 2}}}},
                       {{Mark::Kind::restart, 5, "restart at 5", {}, {}},
                        {Mark::Kind::best, 5, "best", inf, {}},
                        {Mark::Kind::save, 5, "saved at 5", {}, {}}}});
  for (const char* bad : {"Minf", ",inf", "nan,", ",nan", "inf,", "\"nan", "\"inf", "\"-nan"})
    EXPECT_THAT(svg, Not(HasSubstr(bad)));
  EXPECT_THAT(svg, HasSubstr("<circle"));
  for (const char* mark : {"mark restart", "mark best", "mark save"})
    EXPECT_THAT(svg, HasSubstr(mark));
  EXPECT_EQ(to_svg(LineChart{"t", "step", {{"a", {{1, nan}}}}, {}}), "");
  EXPECT_EQ(to_svg(LineChart{"t", "step", {}, {}}), "");
}

TEST(Html, EscapesWhatCouldBeMarkup) {
  EXPECT_EQ(escape_html("<a href=\"x\">&'\x01\n"),
            "&lt;a href=&quot;x&quot;&gt;&amp;&#39;\xEF\xBF\xBD\n");
}

TEST(Report, LabelsAreShownAndHarmless) {
  TempDir run;
  write_file(run / "metrics.jsonl", kTwoSteps);
  write_file(
      run / "config.yaml",
      "experiment: {description: \"<b>bold</b> \\u001b[2Jline\\nnext\", tags: [one, \"<i>\"]}\n"
      "dataset: {name: corpus}\nmodels: {reference: {name: ref}}\n");
  const std::vector<RunData> runs{read_run(run.path())};
  const std::string page = report_page(runs);
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;bold&lt;/b&gt;"));
  EXPECT_THAT(page, HasSubstr("<td>one, &lt;i&gt;</td>"));
  EXPECT_THAT(page, HasSubstr("<td>corpus</td>"));
  EXPECT_THAT(page, HasSubstr("<td>ref</td>"));
  EXPECT_EQ(page.find('\x1b'), page.npos);
  const std::string text = report_text(runs, false);
  EXPECT_THAT(text, HasSubstr("description: <b>bold</b> \\u001b[2Jline\\nnext\n"));
  EXPECT_THAT(text, HasSubstr("tags: one, <i>\n"));
  EXPECT_EQ(text.find('\x1b'), text.npos);
  const OrderedJson labels = report_json(runs)["runs"][0]["labels"];
  EXPECT_EQ(labels["tags"], (std::vector<std::string>{"one", "<i>"}));
  EXPECT_EQ(labels["reference"], "ref");
  EXPECT_EQ(labels["dataset"], "corpus");
}

TEST(Report, ComparisonListsDifferingKeysOnly) {
  TempDir a, b;
  write_file(a / "metrics.jsonl", kTwoSteps);
  write_file(b / "metrics.jsonl", kTwoSteps);
  write_file(a / "config.yaml", "training:\n  batch_size: 1\n  n_epochs: 2.0\n");
  write_file(b / "config.yaml", "training:\n  batch_size: 4\n  n_epochs: 2.0\n");
  const std::vector<RunData> runs{read_run(a.path()), read_run(b.path())};
  const auto rows = config_differences(runs);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0], (std::vector<std::string>{"training.batch_size", "1", "4"}));
  EXPECT_THAT(report_page(runs), HasSubstr("<td>training.batch_size</td>"));
  EXPECT_THAT(report_text(runs, false), HasSubstr("training.batch_size"));
  EXPECT_EQ(report_json(runs)["config_differences"]["training.batch_size"],
            (std::vector<std::string>{"1", "4"}));
}

TEST(Report, PathsBelowTheRunFolderAreNoDifference) {
  RunData a, b;
  a.config = {{"runtime.run_dir", "runs/a"}, {"logging.dir", "runs/a/logs"}, {"x", "runs/a"}};
  b.config = {{"runtime.run_dir", "runs/b"}, {"logging.dir", "runs/b/logs"}, {"x", "runs/bc"}};
  const auto rows = config_differences({a, b});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0], (std::vector<std::string>{"x", "${runtime.run_dir}", "runs/bc"}));
  a.config = {{"experiment.name", "one"}, {"storage.s3.prefix", "saved/one"}, {"y", "one"}};
  b.config = {{"experiment.name", "two"}, {"storage.s3.prefix", "saved/two"}, {"y", "none"}};
  EXPECT_EQ(config_differences({a, b}),
            (std::vector<std::vector<std::string>>{{"experiment.name", "one", "two"},
                                                   {"y", "${experiment.name}", "none"}}));
}

TEST(Report, BestIsNamedAndMarkedBesideTheSaves) {
  TempDir folder;
  write_file(folder / "metrics.jsonl",
             std::string(kTwoSteps) +
                 "{\"step\":1,\"time\":11,\"val/loss\":2.5,\"val/perplexity\":12.2}\n"
                 "{\"step\":2,\"time\":21,\"checkpoint/save_s\":0.5}\n");
  const std::vector<RunData> runs{read_run(folder.path())};
  EXPECT_EQ(overview_cells(runs[0])[5], "val/loss 2.5 at 1");
  const std::string page = report_page(runs);
  EXPECT_THAT(page, HasSubstr("<title>best val/loss 2.5 at 1</title>"));
  EXPECT_THAT(page, HasSubstr("<title>saved at 2</title>"));
  EXPECT_THAT(page, HasSubstr("<figcaption>Perplexity</figcaption>"));
}

TEST(Report, OneColourIsOneHeadAndOneRunAndADashIsAValidation) {
  RunData a, b;
  a.name = "a", b.name = "b";
  for (RunData* run : {&a, &b})
    for (const char* name : {"train/head0_loss", "train/head1_loss", "val/head0_loss"})
      run->series[name] = {{1, 1.0}, {2, 2.0}};
  const CurveGroup& heads = curve_groups()[1];
  const LineChart alone = chart_of(heads, a);
  ASSERT_EQ(alone.curves.size(), 3U);
  EXPECT_EQ(alone.curves[0].color, alone.curves[2].color);
  EXPECT_NE(alone.curves[0].color, alone.curves[1].color);
  EXPECT_TRUE(alone.curves[2].dashed && !alone.curves[0].dashed);
  const auto both = overlays_of(heads, {a, b});
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].title, "head0_loss");
  ASSERT_EQ(both[0].curves.size(), 4U);
  for (const Curve& curve : both[0].curves)
    EXPECT_EQ(curve.color, curve.label.starts_with("b") ? 1U : 0U);
}

}  // namespace
}  // namespace wmtp::tracking
