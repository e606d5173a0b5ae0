#include "wmtp/tracking/run_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/tracking/jsonl_sink.h"
#include "wmtp/tracking/report/recorded/run_data.h"
#include "wmtp/tracking/report/sample_html.h"

namespace wmtp::tracking {
namespace {

using test::slurp;
using test::TempDir;
using test::write_file;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Jsonl, OneObjectALineInTheOrderGiven) {
  TempDir folder;
  JsonlSink sink(folder / "m.jsonl");
  sink.point({3, 1763200000.12345, {{"train/loss", 1.5}, {"a/b", 2}}});
  sink.resumed({.step = 3});
  EXPECT_EQ(slurp(folder / "m.jsonl"),
            "{\"step\":3,\"time\":1763200000.123,\"train/loss\":1.5,\"a/b\":2.0}\n"
            "{\"event\":\"resume\",\"step\":3}\n");
}

TEST(Jsonl, NonFiniteNumbersAreTexts) {
  TempDir folder;
  JsonlSink sink(folder / "m.jsonl");
  const double inf = std::numeric_limits<double>::infinity();
  sink.point({1, 0, {{"a", std::nan("")}, {"b", inf}, {"c", -inf}}});
  EXPECT_EQ(slurp(folder / "m.jsonl"),
            "{\"step\":1,\"time\":0.0,\"a\":\"NaN\",\"b\":\"Infinity\",\"c\":\"-Infinity\"}\n");
}

TEST(Jsonl, ATornLastLineIsHealedOnResume) {
  TempDir folder;
  write_file(folder / "m.jsonl", "{\"step\":1,\"time\":0.0,\"x\":1.0}\n{\"step\":2,\"ti");
  {
    JsonlSink sink(folder / "m.jsonl");
    sink.resumed({.step = 1});
    sink.point({2, 5, {{"x", 7}}});
  }
  JsonlSink(folder / "m.jsonl").point({3, 6, {{"x", 8}}});  // whole: no empty line
  EXPECT_EQ(slurp(folder / "m.jsonl"),
            "{\"step\":1,\"time\":0.0,\"x\":1.0}\n{\"step\":2,\"ti\n"
            "{\"event\":\"resume\",\"step\":1}\n{\"step\":2,\"time\":5.0,\"x\":7.0}\n"
            "{\"step\":3,\"time\":6.0,\"x\":8.0}\n");
}

TEST(Jsonl, AFullDiskLosesLinesAndNotTheRun) {
  TempDir folder;
  AppendFile file(folder / "m.jsonl");
  file.line({{"step", 1}});
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit tight{15, old.rlim_max};  // room for half of the second line
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  file.line({{"step", 2}});
  file.line({{"step", 3}});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  file.line({{"step", 4}});
  EXPECT_EQ(file.num_lost(), 2);
  EXPECT_EQ(slurp(folder / "m.jsonl"), "{\"step\":1}\n{\"st\n{\"step\":4}\n");
}

TEST(Jsonl, AFolderThatIsNotThereIsAnError) {
  TempDir folder;
  EXPECT_WMTP_ERROR(JsonlSink(folder / "no" / "m.jsonl"), ErrorKind::io, "m.jsonl");
}

TEST(Jsonl, ALinkIsRefusedByName) {
  TempDir folder;
  write_file(folder / "elsewhere", "precious\n");
  std::filesystem::create_symlink("elsewhere", folder / "m.jsonl");
  std::filesystem::create_symlink("nothing", folder / "n.jsonl");
  EXPECT_WMTP_ERROR(JsonlSink(folder / "m.jsonl"), ErrorKind::io, "m.jsonl is a symbolic link");
  EXPECT_WMTP_ERROR(JsonlSink(folder / "n.jsonl"), ErrorKind::io, "n.jsonl is a symbolic link");
  EXPECT_EQ(slurp(folder / "elsewhere"), "precious\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "nothing"));
}

TEST(FanOutSink, PassesOnToAll) {
  TempDir folder;
  FanOut all;
  EXPECT_TRUE(all.empty());
  all.add(std::make_shared<JsonlSink>(folder / "a"));
  all.add(std::make_shared<JsonlSink>(folder / "b"));
  all.point({1, 2, {{"x", 3}}});
  all.flush();
  EXPECT_EQ(slurp(folder / "a"), slurp(folder / "b"));
  EXPECT_THAT(slurp(folder / "a"), HasSubstr("\"x\":3.0"));
}

TEST(Histograms, CountEveryFiniteValueOnce) {
  const Histogram h = make_histogram("w", 5, {0, 1, 2, 3, 4, 4, std::nan("")}, 4);
  EXPECT_EQ(h.edges, (std::vector<double>{0, 1, 2, 3, 4}));
  EXPECT_EQ(h.counts, (std::vector<std::uint64_t>{1, 1, 1, 3}));
  const Histogram same = make_histogram("w", 5, {2, 2, 2}, 40);
  EXPECT_EQ(same.edges, (std::vector<double>{1.5, 2.5}));
  EXPECT_EQ(same.counts, (std::vector<std::uint64_t>{3}));
  EXPECT_TRUE(make_histogram("w", 5, {}, 40).counts.empty());
}

TEST(RunFolder, WhatIsWrittenReadsBack) {
  TempDir folder;
  JsonlSink(folder / kMetricsFile).point({1, 10, {{"train/loss", 2}}});
  RunFiles files(folder.path());
  DecodedSample sample{.step = 4, .stage = "rho1", .tokens = {}};
  sample.split = "validation";
  sample.id = 7;
  sample.correct = false;
  sample.tokens.push_back({.text = "a \"b\"\n", .is_target = false, .weight = 0});
  sample.tokens.push_back(
      {.text = "<i>", .is_target = true, .weight = 1.5, .value = 0.25, .selected = {1, 0}});
  files.sample(sample);
  files.histogram(make_histogram("weight", 4, {0, 1, 2}, 2));
  files.environment({{"device", "cpu"}, {"versions", {{"wmtp", "1"}}}});
  RunSummary summary;
  summary.stage = "rho1";
  summary.best = Best{"val/loss", 0.5, 3};
  summary.paths = {{"final", "runs/x/final"}};
  files.finished(summary);

  const RunData run = read_run(folder.path());
  EXPECT_EQ(run.stage, "rho1");
  ASSERT_EQ(run.samples.size(), 1U);
  EXPECT_EQ(run.samples[0].split, "validation");
  EXPECT_EQ(run.samples[0].id, 7U);
  EXPECT_EQ(run.samples[0].correct, false);
  EXPECT_EQ(run.samples[0].tokens[0].text, "a \"b\"\n");
  EXPECT_FALSE(run.samples[0].tokens[0].value);
  EXPECT_EQ(run.samples[0].tokens[1].value, 0.25);
  EXPECT_EQ(run.samples[0].tokens[1].selected, (std::vector<std::uint8_t>{1, 0}));
  EXPECT_EQ(run.histograms.at(0).counts, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(run.best->step, 3);
  EXPECT_EQ(run.paths.at(0).second, "runs/x/final");
  EXPECT_EQ(run.environment.at(1).first, "versions.wmtp");
  EXPECT_EQ(
      slurp(folder / kSamplesFile),
      "{\"step\":4,\"stage\":\"rho1\",\"split\":\"validation\",\"id\":7,\"correct\":false,"
      "\"tokens\":[{\"t\":\"a \\\"b\\\"\\n\",\"m\":0,\"w\":0.0,"
      "\"v\":null,\"sel\":null},{\"t\":\"<i>\",\"m\":1,\"w\":1.5,\"v\":0.25,\"sel\":[1,0]}]}\n");
}

TEST(SampleView, PlainAndColoured) {
  DecodedSample sample{.step = 0, .stage = "verifiable", .tokens = {}};
  sample.tokens.push_back({.text = "Q:\n", .is_target = false});
  sample.tokens.push_back({.text = " yes", .is_target = true, .weight = 2});
  sample.tokens.push_back({.text = "\x1b[2J", .is_target = true, .weight = 0.5});
  EXPECT_EQ(render_sample(sample, {}),
            "Q:\\n>> yes{2.00}\\u001b[2J{0.50}<<\n"
            "3 tokens, 2 targets, weights 0.500 to 2.000, mean 1.250\n");
  const std::string colored = render_sample(sample, {.color = true});
  EXPECT_EQ(colored.find("\x1b[2J"), std::string::npos);  // what a token says is text, no command
  EXPECT_THAT(colored, HasSubstr("48;5;31m yes"));
  for (SampleToken& token : sample.tokens) token.weight = 1;
  EXPECT_EQ(render_sample(sample, {}),
            "Q:\\n>> yes\\u001b[2J<<\n3 tokens, 2 targets, every weight 1\n");
}

TEST(SampleView, LongSamplesKeepTheEndOfThePromptAndTheTargets) {
  DecodedSample sample{.step = 0, .stage = "rho1", .tokens = {}};
  for (int i = 0; i < 100; ++i) sample.tokens.push_back({.text = "p"});
  for (int i = 0; i < 100; ++i)
    sample.tokens.push_back(
        {.text = "t", .is_target = true, .weight = 1, .selected = {std::uint8_t(i < 60)}});
  EXPECT_EQ(render_sample(sample, {.color = false, .max_tokens = 9}),
            "… ppp>>tttttt<< …\n200 tokens, 100 targets, every weight 1, the head selects 60 %\n");
}

TEST(SampleView, AHeadSelectsAmongTheTokensThatItPredicts) {
  DecodedSample sample{.step = 0, .stage = "rho1", .tokens = {{.text = "a"}}};
  for (int i = 1; i < 5; ++i)  // head 2 looks two tokens ahead, so it has no word for the second
    sample.tokens.push_back(
        {.text = "t", .is_target = true, .weight = 1, .selected = {1, std::uint8_t(i > 1)}});
  EXPECT_THAT(render_sample(sample, {}),
              HasSubstr("5 tokens, 4 targets, every weight 1, the heads select 100, 100 %"));
  RunData run;
  run.samples = {sample};
  EXPECT_THAT(samples_html({run}), AllOf(HasSubstr("Head 1: 4 of 4 targets selected"),
                                         HasSubstr("Head 2: 3 of 3 targets selected")));
}

}  // namespace
}  // namespace wmtp::tracking
