#include "wmtp/tracking/mlflow/sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_mlflow.h"
#include "support/temp_dir.h"
#include "wmtp/tracking/mlflow/rest/limits.h"

namespace wmtp::tracking::mlflow {
namespace {

using test::FakeMlflow;
using test::TempDir;
using Outcome = Sender::Outcome;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const auto kNobody = [](const Record&) {};

http::Failure no_connection() {
  return {http::FailureKind::connect, "nobody listens"};
}

// A spool in a folder of its own, a server in memory, and a clock that is moved by hand.
struct Post {
  TempDir dir;
  storage::LocalFileSystem files;
  FakeMlflow server;
  std::unique_ptr<Spool> spool;
  Clock::time_point now = Clock::now();

  Post() {
    open();
    spool->with_files([](SpoolFiles& small) {
      small.save(SpooledRun{.run_uid = "uid", .experiment = "e", .run_name = "r", .start_ms = 5});
    });
  }
  void open() {
    spool.reset();
    spool = std::make_unique<Spool>(files, dir / "uid", kNobody);
  }
  Sender sender() {
    return Sender(*spool,
                  {.connect = [this] { return server.connect(); }, .now = [this] { return now; }});
  }
  void metric(const std::string& key, std::int64_t step, double value = 1) const {
    spool->append(RecordKind::metrics,
                  {{"step", step}, {"time_ms", 1000 + step}, {"values", {{key, value}}}});
  }
  // Steps until nothing is left, however often it takes.
  void drain(Sender& sender) {
    for (int i = 0; i < 1000; ++i) {
      const Sender::Step step = sender.step();
      if (step.outcome == Outcome::idle && step.wait.count() == 0) return;
      now += step.wait;
    }
    FAIL() << "not drained: " << sender.problem();
  }
  Acked acked() const {
    return spool->with_files([](SpoolFiles& small) { return small.acked(); });
  }
};

TEST(MlflowSender, MakesOneRunAndSendsInOrder) {
  Post post;
  for (int step = 1; step <= 2500; ++step) post.metric("loss", step, step);
  Sender sender = post.sender();
  post.drain(sender);
  ASSERT_EQ(post.server.batches.size(), 3);
  EXPECT_EQ(post.server.batches[0].metrics.size(), kMaxBatchMetrics);
  EXPECT_EQ(post.server.batches[2].metrics.size(), 500);
  std::int64_t last = 0;
  for (const Batch& batch : post.server.batches)
    for (const Metric& metric : batch.metrics) {
      EXPECT_EQ(metric.step, ++last);
      EXPECT_EQ(metric.timestamp_ms, 1000 + metric.step);
    }
  EXPECT_EQ(post.acked().seq, 2500);
  EXPECT_TRUE(sender.is_drained());
  EXPECT_EQ(post.server.runs.at("run1").tags.at("wmtp.run_uid"), "uid");
}

TEST(MlflowSender, BatchesKeepEveryLimit) {
  Post post;
  OrderedJson params, tags;
  for (int i = 0; i < 100; ++i) params["p" + std::to_string(i)] = std::string(kMaxParamLength, 'p');
  for (int i = 0; i < 50; ++i)
    tags["t" + std::to_string(i)] = std::string(kMaxTagLength, '\x01');  // six characters each
  post.spool->append(RecordKind::params, params);
  post.spool->append(RecordKind::params, {{"one", "more"}});
  post.spool->append(RecordKind::tags, tags);
  for (int step = 1; step <= 1000; ++step) post.metric("loss", step);
  post.server.check = [](const Batch& batch) {
    EXPECT_LE(batch.metrics.size(), kMaxBatchMetrics);
    EXPECT_LE(batch.params.size(), kMaxBatchParams);
    EXPECT_LE(batch.tags.size(), kMaxBatchTags);
    EXPECT_LE(batch.metrics.size() + batch.params.size() + batch.tags.size(), kMaxBatchRecords);
    std::size_t characters = 0;
    for (const auto& [key, value] : batch.tags) characters += OrderedJson(value).dump().size();
    EXPECT_LE(characters, kMaxBatchCharacters);
  };
  Sender sender = post.sender();
  post.drain(sender);
  const auto& run = post.server.runs.at("run1");
  EXPECT_EQ(run.params.size(), 101);
  EXPECT_EQ(run.tags.size(), 51);
  EXPECT_EQ(post.server.history.size(), 1000);
}

TEST(MlflowSender, ALostAnswerToCreateMakesNoSecondRun) {
  Post post;
  post.metric("loss", 1);
  int num_lost = 0;
  post.server.after = [&](const std::string& call) {
    if (call == "create_run" && num_lost++ == 0)
      throw http::Failure(http::FailureKind::reset, "lost");
  };
  Sender sender = post.sender();
  EXPECT_EQ(sender.step().outcome, Outcome::outage);
  post.drain(sender);
  EXPECT_EQ(post.server.runs.size(), 1);
  EXPECT_EQ(post.server.history.size(), 1);
}

TEST(MlflowSender, ALostAnswerRepeatsOneBatchWithItsStamps) {
  Post post;
  for (int step = 1; step <= 3000; ++step) post.metric("loss", step);
  int num_batches = 0;
  post.server.after = [&](const std::string& call) {
    if (call == "log_batch" && ++num_batches == 2)
      throw http::Failure(http::FailureKind::reset, "lost");
  };
  Sender sender = post.sender();
  post.drain(sender);
  EXPECT_EQ(post.server.num_repeats, 1000);
  for (const auto& [at, values] : post.server.history) EXPECT_EQ(values.size(), 1);
  EXPECT_EQ(post.server.history.size(), 3000);
  EXPECT_EQ(sender.counters().outages, 1);
}

TEST(MlflowSender, AnOutageBacksOffAndNothingIsLost) {
  Post post;
  post.metric("loss", 1);
  bool is_down = true;
  post.server.before = [&](const std::string&) {
    if (is_down) throw no_connection();
  };
  Sender sender = post.sender();
  milliseconds longest{0};
  for (int i = 0; i < 40; ++i) {
    const Sender::Step step = sender.step();
    ASSERT_EQ(step.outcome, Outcome::outage);
    EXPECT_TRUE(step.is_unreachable);
    EXPECT_LE(step.wait, milliseconds(i == 0 ? 500 : 30'000));
    longest = std::max(longest, step.wait);
    post.metric("loss", 2 + i);
  }
  EXPECT_GT(longest, milliseconds(5'000));
  EXPECT_EQ(sender.counters().outages, 1);
  is_down = false;
  post.drain(sender);
  EXPECT_EQ(post.server.history.size(), 41);
  is_down = true;
  post.metric("loss", 100);
  EXPECT_LE(sender.step().wait, milliseconds(500));  // from the begin again
  EXPECT_EQ(sender.counters().outages, 2);
}

TEST(MlflowSender, RetryAfterIsHonoured) {
  Post post;
  post.metric("loss", 1);
  post.server.before = [](const std::string&) {
    throw Unavailable(429, std::chrono::seconds(77), "busy");
  };
  Sender sender = post.sender();
  const Sender::Step step = sender.step();
  EXPECT_EQ(step.wait, milliseconds(77'000));
  EXPECT_FALSE(step.is_unreachable);
}

TEST(MlflowSender, ARefusedRecordIsFoundAndSetAside) {
  Post post;
  for (int step = 1; step <= 900; ++step) post.metric(step == 333 ? "bad" : "loss", step);
  post.server.check = [](const Batch& batch) {
    for (const Metric& metric : batch.metrics)
      if (metric.key == "bad") throw Refused(400, "INVALID_PARAMETER_VALUE", "bad key");
  };
  Sender sender = post.sender();
  post.drain(sender);
  EXPECT_EQ(post.server.history.size(), 899);
  EXPECT_EQ(sender.counters().rejected, 1);
  EXPECT_EQ(post.acked().seq, 900);
  EXPECT_THAT(test::slurp(post.dir / "uid" / "rejected.jsonl"),
              ::testing::AllOf(HasSubstr("\"seq\":333"), HasSubstr("\"message\":\"bad key\"")));
  EXPECT_LE(post.server.num_calls("log_batch"), 25);
}

TEST(MlflowSender, WhatConcernsAllRecordsSetsNoneAside) {
  for (const int status : {401, 403, 404}) {
    Post post;
    post.metric("loss", 1);
    bool is_refusing = true;
    post.server.before = [&](const std::string& call) {
      if (is_refusing && call == "log_batch") throw Refused(status, "", "no");
    };
    Sender sender = post.sender();
    const Sender::Step step = sender.step();
    EXPECT_EQ(step.outcome, Outcome::blocked);
    EXPECT_EQ(step.wait, milliseconds(60'000));
    EXPECT_EQ(sender.counters().rejected, 0);
    is_refusing = false;
    post.drain(sender);
    EXPECT_EQ(post.server.history.size(), 1);
  }
}

TEST(MlflowSender, ARunThatRefusesEverythingSetsNothingAside) {
  Post post;
  for (int step = 1; step <= 20; ++step) post.metric("loss", step);
  post.server.before = [](const std::string& call) {
    if (call == "log_batch" || call == "set_tag")
      throw Refused(400, "INVALID_PARAMETER_VALUE", "the run must be active");
  };
  Sender sender = post.sender();
  EXPECT_EQ(sender.step().outcome, Outcome::blocked);
  EXPECT_EQ(sender.counters().rejected, 0);
  EXPECT_EQ(post.acked().seq, 0);
}

TEST(MlflowSender, ADeletedRunIsWaitedFor) {
  Post post;
  post.metric("loss", 1);
  {
    Sender sender = post.sender();
    post.drain(sender);
  }
  post.server.runs.at("run1").is_deleted = true;
  post.open();
  post.metric("loss", 2);
  Sender sender = post.sender();
  EXPECT_EQ(sender.step().outcome, Outcome::blocked);
  EXPECT_THAT(sender.problem(), HasSubstr("mlflow runs restore --run-id run1"));
  post.server.runs.at("run1").is_deleted = false;
  post.drain(sender);
  EXPECT_EQ(post.server.history.size(), 2);
}

TEST(MlflowSender, ChangedParamsBecomeTags) {
  Post post;
  post.spool->append(RecordKind::params, {{"lr", "1"}, {"bs", "8"}});
  {
    Sender sender = post.sender();
    post.drain(sender);
  }
  post.open();
  post.spool->append(RecordKind::params, {{"lr", "2"}, {"bs", "8"}, {"new", "3"}});
  Sender sender = post.sender();
  post.drain(sender);
  const auto& run = post.server.runs.at("run1");
  EXPECT_EQ(run.params,
            (std::map<std::string, std::string>{{"lr", "1"}, {"bs", "8"}, {"new", "3"}}));
  EXPECT_EQ(run.tags.at("wmtp.changed.lr"), "2");
  EXPECT_FALSE(run.tags.contains("wmtp.changed.bs"));
  EXPECT_EQ(sender.counters().rejected, 0);
}

TEST(MlflowSender, ChangedParamsOfOneOutageBecomeTagsToo) {
  Post post;
  post.spool->append(RecordKind::params, {{"lr", "1"}});
  post.spool->append(RecordKind::params, {{"lr", "2"}});
  Sender sender = post.sender();
  post.drain(sender);
  EXPECT_EQ(post.server.runs.at("run1").params.at("lr"), "1");
  EXPECT_EQ(post.server.runs.at("run1").tags.at("wmtp.changed.lr"), "2");
}

TEST(MlflowSender, AnArtifactThatCannotBeSentKeepsNoNumbersBack) {
  Post post;
  test::write_file(post.dir / "a.txt", "first");
  post.spool->append_artifact("a.txt", post.dir / "a.txt");
  test::write_file(post.dir / "a.txt", "changed since");
  post.metric("loss", 1);
  bool is_down = true;
  post.server.before = [&](const std::string& call) {
    if (is_down && call == "upload") throw Unavailable(500, {}, "store");
  };
  {
    Sender sender = post.sender();
    for (int i = 0; i < 5; ++i) sender.step();
    EXPECT_EQ(post.server.history.size(), 1);
    EXPECT_FALSE(sender.is_drained());
    EXPECT_EQ(sender.counters().outages, 0);  // numbers are sent as ever
    EXPECT_EQ(post.acked().seq, 2);
    EXPECT_THAT(post.acked().later, ElementsAre(1));
  }
  is_down = false;
  post.open();
  Sender sender = post.sender();
  post.drain(sender);
  EXPECT_THAT(post.server.uploads, ElementsAre("a.txt=first"));
  EXPECT_TRUE(sender.is_drained());
}

TEST(MlflowSender, ALargeFileThatIsGoneIsSetAside) {
  Post post;
  post.spool->append(RecordKind::artifact,
                     {{"name", "m"}, {"path", (post.dir / "gone").string()}, {"copied", false}});
  post.spool->append(RecordKind::artifact,
                     {{"name", "m"}, {"path", "../../etc/passwd"}, {"copied", true}});
  post.metric("loss", 1);
  Sender sender = post.sender();
  post.drain(sender);
  EXPECT_EQ(sender.counters().rejected, 2);
  EXPECT_TRUE(post.server.uploads.empty());
  EXPECT_TRUE(sender.is_drained());
}

TEST(MlflowSender, ARunOfAnotherMachineGoesOnWhereItsServerIs) {
  Post post;
  post.metric("loss", 1, 1);
  post.metric("loss", 2, 2);
  Sender first = post.sender();
  post.drain(first);
  std::filesystem::remove_all(post.dir / "uid");
  post.open();
  post.spool->with_files([](SpoolFiles& small) { small.save(SpooledRun{.run_uid = "uid"}); });
  post.metric("loss", 2, 2.5);
  post.metric("loss", 3, 3);
  post.metric("other", 1, 4);
  Sender second = post.sender();
  post.drain(second);
  EXPECT_EQ(post.server.runs.size(), 1);
  EXPECT_EQ(post.server.history.at({"loss", 2}).size(), 1);
  EXPECT_EQ(post.server.history.at({"loss", 2})[0].value, 2);
  EXPECT_EQ(post.server.history.size(), 4);
}

TEST(MlflowSender, InputsGoInTheirPlaceAndTheEndComesLast) {
  Post post;
  post.metric("loss", 1);
  post.spool->append(RecordKind::inputs, {{"datasets", OrderedJson::array()}});
  post.metric("loss", 2);
  Sender sender = post.sender();
  sender.end({RunStatus::failed, 70, "it broke", 99, false});
  post.drain(sender);
  const std::vector<std::string>& calls = post.server.calls;
  EXPECT_THAT(std::vector(calls.begin() + 3, calls.end()),
              ElementsAre("log_batch", "log_inputs", "log_batch", "log_batch", "update_run"));
  EXPECT_EQ(post.server.statuses.at("run1"), RunStatus::failed);
  EXPECT_EQ(post.server.end_ms.at("run1"), 99);
  EXPECT_EQ(post.server.runs.at("run1").tags.at("wmtp.exit_code"), "70");
  EXPECT_EQ(post.server.runs.at("run1").tags.at("wmtp.exit_reason"), "it broke");
  EXPECT_TRUE(post.spool->with_files([](SpoolFiles& small) { return small.end(); })->is_sent);
}

}  // namespace
}  // namespace wmtp::tracking::mlflow
