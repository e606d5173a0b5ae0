// What every sink promises (sink.h), whatever it writes to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "support/temp_dir.h"
#include "wmtp/tracking/console.h"
#include "wmtp/tracking/jsonl_sink.h"
#include "wmtp/tracking/mlflow/mlflow_sink.h"
#include "wmtp/tracking/run_files.h"
#include "wmtp/tracking/sink_queue.h"
#include "wmtp/tracking/tensorboard/sink.h"

namespace wmtp::tracking {
namespace {

using test::TempDir;

struct SinkCase {
  std::string name;
  std::function<std::shared_ptr<Sink>(const std::filesystem::path&, std::ostream&)> make;
  bool keeps_points = true;  // in files of the folder
};

std::shared_ptr<Sink> make_mlflow(const std::filesystem::path& folder) {
  mlflow::MlflowOptions options;
  options.spool_dir = folder / "spool";
  options.run_uid = "uid";
  return std::make_shared<mlflow::MlflowSink>(options);
}

std::vector<SinkCase> sink_cases() {
  using Path = std::filesystem::path;
  return {
      {"Console",
       [](const Path&, std::ostream& out) {
         return std::make_shared<Console>(out, ConsoleOptions{});
       },
       false},
      {"Jsonl",
       [](const Path& folder, std::ostream&) {
         return std::make_shared<JsonlSink>(folder / "metrics.jsonl");
       }},
      {"RunFiles",
       [](const Path& folder, std::ostream&) { return std::make_shared<RunFiles>(folder); }, false},
      {"Tensorboard",
       [](const Path& folder, std::ostream&) {
         return std::make_shared<TensorboardSink>(folder / "tb", 1.0);
       }},
      {"Mlflow", [](const Path& folder, std::ostream&) { return make_mlflow(folder); }},
      {"Queue",
       [](const Path& folder, std::ostream&) {
         return std::make_shared<SinkQueue>(std::make_shared<JsonlSink>(folder / "metrics.jsonl"),
                                            1000);
       }},
  };
}

std::vector<SinkCase> keeping_cases() {
  std::vector<SinkCase> cases = sink_cases();
  std::erase_if(cases, [](const SinkCase& one) { return !one.keeps_points; });
  return cases;
}

class SinkConformance : public ::testing::TestWithParam<SinkCase> {
 protected:
  std::shared_ptr<Sink> make() { return GetParam().make(dir_.path(), out_); }
  // All that is below the folder, one after another.
  std::string bytes() const {
    std::string all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.path()))
      if (entry.is_regular_file()) all += test::slurp(entry.path());
    return all;
  }

  TempDir dir_;
  std::ostringstream out_;
};

void tell_all(Sink& sink, std::int64_t step) {
  sink.resumed({.step = step, .name = "m"});
  sink.point({step, 1, {{"train/loss", 1.5}}});
  sink.histogram(make_histogram("w", step, {1, 2}, 2));
  sink.sample({step, "baseline", {{.text = "a"}}});
  sink.progress({.step = step, .num_steps = 10});
  sink.validating({.step = step, .num_done = 1, .num_batches = 2});
  sink.validation({.step = step, .loss = 1});
  sink.saving(step);
  sink.saved({.step = step, .name = "m"});
  sink.finished({});
  sink.flush();
}

TEST_P(SinkConformance, StrangePointsAreTaken) {
  const auto sink = make();
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_NO_THROW({
    sink->point({});
    sink->point({1, 0, {{"", 1}}});
    sink->point({2, std::nan(""), {{"a", std::nan("")}, {"b", inf}, {"c", -inf}}});
    sink->point({std::int64_t{1} << 53, 1e300, {{"a", -0.0}}});
    sink->point({-1, -5, {{"a", 1}, {"a", 2}}});
    sink->point({3, 0, {{"\xff\xfe \x1b[31m/../..", 1}, {std::string(5000, 'k'), 2}}});
    NamedValues many;
    for (int i = 0; i < 3000; ++i) many.emplace_back("k" + std::to_string(i), i);
    sink->point({4, 0, many});
    tell_all(*sink, 5);
  });
}

TEST_P(SinkConformance, AFullDiskThrowsNothing) {
  const auto sink = make();
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit tight{64, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  EXPECT_NO_THROW(for (int step = 1; step <= 20; ++step) tell_all(*sink, step));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_NO_THROW(tell_all(*sink, 21));
}

TEST_P(SinkConformance, AFolderThatVanishesThrowsNothing) {
  const auto sink = make();
  tell_all(*sink, 1);
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path()))
    std::filesystem::remove_all(entry.path());
  EXPECT_NO_THROW(for (int step = 2; step <= 20; ++step) tell_all(*sink, step));
}

// The sinks whose points stand in files of the folder.
class KeptPoints : public SinkConformance {};

TEST_P(KeptPoints, StandInTheirOrder) {
  const auto sink = make();
  for (int step = 1; step <= 50; ++step)
    sink->point({step, 1, {{"key_" + std::to_string(step) + "_", 1}}});
  sink->flush();
  const std::string all = bytes();
  std::size_t at = 0;
  for (int step = 1; step <= 50; ++step) {
    at = all.find("key_" + std::to_string(step) + "_", at);
    ASSERT_NE(at, all.npos) << step;
  }
}

// A kill behind flush() takes nothing away.
TEST_P(KeptPoints, AreThereAfterAKillOnceTheyAreFlushed) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto sink = make();
    for (int step = 1; step <= 20; ++step)
      sink->point({step, 1, {{"key_" + std::to_string(step) + "_", 1}}});
    sink->flush();
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  for (int step = 1; step <= 20; ++step)
    EXPECT_THAT(bytes(), ::testing::HasSubstr("key_" + std::to_string(step) + "_"));
}

INSTANTIATE_TEST_SUITE_P(AllSinks, SinkConformance, ::testing::ValuesIn(sink_cases()),
                         [](const auto& tested) { return tested.param.name; });
INSTANTIATE_TEST_SUITE_P(AllSinks, KeptPoints, ::testing::ValuesIn(keeping_cases()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace wmtp::tracking
