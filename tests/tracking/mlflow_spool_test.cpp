#include "wmtp/tracking/mlflow/spool/spool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>

#include "support/crash_store.h"
#include "support/temp_dir.h"
#include "wmtp/core/rng.h"
#include "wmtp/tracking/mlflow/spool/spool_lock.h"
#include "wmtp/tracking/mlflow/spool/spool_reader.h"
#include "wmtp/tracking/mlflow/spool/step_set.h"

namespace wmtp::tracking::mlflow {
namespace {

using test::CrashStore;
using test::TempDir;
using test::write_file;
using ::testing::ElementsAre;

OrderedJson tag(const std::string& value) {
  return {{"t", value}};
}

std::vector<std::uint64_t> seqs_in(storage::FileSystem& files,
                                   const std::filesystem::path& folder) {
  std::vector<std::uint64_t> seqs;
  SpoolReader reader(files, folder);
  while (const auto record = reader.next()) seqs.push_back(record->seq);
  return seqs;
}

const auto kIgnore = [](const Record&) {};

TEST(StepSets, HoldWhatAPlainSetHolds) {
  RngStream rng(7, "steps");
  for (int round = 0; round < 200; ++round) {
    StepSet steps;
    std::set<std::int64_t> plain;
    for (int i = 0; i < 60; ++i) {
      const auto step = static_cast<std::int64_t>(rng.below(round % 2 ? 40 : 1000)) - 10;
      ASSERT_EQ(steps.insert(step), plain.insert(step).second);
    }
    for (std::int64_t step = -12; step < 1000; ++step)
      ASSERT_EQ(steps.contains(step), plain.contains(step)) << step;
    ASSERT_EQ(steps.largest(), *plain.rbegin());
  }
}

TEST(StepSets, AreSmallForEvenStridesAndTakeTheLargestSteps) {
  StepSet steps;
  for (std::int64_t step = 10; step <= 1'000'000; step += 10) steps.insert(step);
  EXPECT_EQ(steps.num_strides(), 1);
  EXPECT_TRUE(steps.insert(INT64_MAX));
  EXPECT_TRUE(steps.insert(INT64_MIN));
  EXPECT_FALSE(steps.insert(INT64_MAX));
  EXPECT_TRUE(steps.contains(500));
  EXPECT_FALSE(steps.contains(505));
}

TEST(SpoolRecords, ReadBackAsTheyWereWritten) {
  const Record record{7,
                      RecordKind::metrics,
                      {{"step", std::int64_t{1} << 53},
                       {"time_ms", 5},
                       {"values", {{"a", 0.1}, {"b", "NaN"}, {"c", "-Infinity"}}}}};
  const auto read = parse_record(line_of(record).substr(0, line_of(record).size() - 1));
  ASSERT_TRUE(read);
  const auto metrics = metrics_of(*read);
  ASSERT_EQ(metrics.size(), 3);
  EXPECT_EQ(metrics[0].value, 0.1);
  EXPECT_EQ(metrics[0].step, std::int64_t{1} << 53);
  EXPECT_TRUE(std::isnan(metrics[1].value));
  EXPECT_TRUE(std::isinf(metrics[2].value) && metrics[2].value < 0);
}

TEST(SpoolRecords, WhatIsNoneIsNone) {
  for (const char* line :
       {"", "{", "[]", "null", R"({"seq":1,"kind":"metrics"})",
        R"({"seq":0,"kind":"tags","payload":{}})", R"({"seq":-1,"kind":"tags","payload":{}})",
        R"({"seq":1e3,"kind":"tags","payload":{}})", R"({"seq":1,"kind":"other","payload":{}})",
        R"({"seq":18446744073709551615,"kind":"tags","payload":{}})",
        R"({"seq":1,"kind":"tags","payload":{"a":1}})", R"({"seq":1,"kind":"tags","payload":[]})",
        R"({"seq":1,"kind":"metrics","payload":{"step":1,"time_ms":1,"values":{"a":"x"}}})",
        R"({"seq":1,"kind":"metrics","payload":{"step":"1","time_ms":1,"values":{}}})",
        R"({"seq":1,"kind":"artifact","payload":{"name":"a","path":"b"}})", "\xff\xfe"})
    EXPECT_FALSE(parse_record(line)) << line;
}

TEST(SpoolFolder, EachStartBeginsASegmentAndGoesOnCounting) {
  TempDir dir;
  storage::LocalFileSystem files;
  for (int start = 0; start < 3; ++start) {
    Spool spool(files, dir / "uid", kIgnore);
    EXPECT_TRUE(spool.append(RecordKind::tags, tag("a")));
    EXPECT_TRUE(spool.append(RecordKind::tags, tag("b")));
  }
  EXPECT_THAT(seqs_in(files, dir / "uid"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_TRUE(std::filesystem::exists(dir / "uid" / "00000003.jsonl"));
}

TEST(SpoolFolder, IsPrivate) {
  TempDir dir;
  storage::LocalFileSystem files;
  const auto lock = SpoolLock::take(dir / "deep" / "uid");
  Spool spool(files, dir / "deep" / "uid", kIgnore);
  spool.append(RecordKind::tags, tag("a"));
  spool.with_files([](SpoolFiles& small) { small.save(Acked{1, {}}); });
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path())) {
    struct stat status {};
    ASSERT_EQ(::lstat(entry.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 077, 0) << entry.path();
  }
}

TEST(SpoolFolder, HasOneWriterAtATime) {
  TempDir dir;
  auto lock = SpoolLock::take(dir / "uid");
  ASSERT_TRUE(lock);
  EXPECT_FALSE(SpoolLock::take(dir / "uid"));
  lock.reset();
  EXPECT_TRUE(SpoolLock::take(dir / "uid"));
}

TEST(SpoolFolder, LinksAreNotFollowed) {
  TempDir dir;
  storage::LocalFileSystem files;
  std::filesystem::create_directory(dir / "uid");
  write_file(dir / "elsewhere", line_of({1, RecordKind::tags, tag("secret")}));
  std::filesystem::create_symlink(dir / "elsewhere", dir / "uid" / "00000001.jsonl");
  std::filesystem::create_symlink(dir / "elsewhere", dir / "uid" / "acked");
  Spool spool(files, dir / "uid", [](const Record&) { FAIL() << "a record out of a link"; });
  EXPECT_TRUE(spool.append(RecordKind::tags, tag("b")));
  EXPECT_EQ(spool.with_files([](SpoolFiles& small) { return small.acked(); }).seq, 0);
  EXPECT_EQ(test::slurp(dir / "elsewhere"), line_of({1, RecordKind::tags, tag("secret")}));
  std::filesystem::create_directory_symlink(dir / "uid", dir / "linked");
  EXPECT_THROW(SpoolLock::take(dir / "linked"), storage::FileError);
}

TEST(SpoolFolder, StrangeLinesAreLeftOutAndTheRestIsRead) {
  TempDir dir;
  storage::LocalFileSystem files;
  std::filesystem::create_directory(dir / "uid");
  const auto line = [](std::uint64_t seq) { return line_of({seq, RecordKind::tags, tag("x")}); };
  const std::string huge = line_of({3, RecordKind::tags, tag(std::string(kMaxRecordBytes, 'x'))});
  write_file(dir / "uid" / "00000001.jsonl", line(1) + "garbage\n" + line(2) +
                                                 std::string(100, '\0') + "\n" + huge + line(4) +
                                                 line(4) + line(2) + line(std::uint64_t{1} << 50) +
                                                 line(5) + line(6).substr(0, 20));  // torn
  write_file(dir / "uid" / "00000002.jsonl", line(7) + "{\"seq\":8,");
  write_file(dir / "uid" / "notes.jsonl", line(9));
  Spool spool(files, dir / "uid", kIgnore);
  EXPECT_EQ(spool.num_strange(), 4);
  EXPECT_EQ(spool.last_seq(), 7);
  spool.append(RecordKind::tags, tag("y"));
  EXPECT_THAT(seqs_in(files, dir / "uid"), ElementsAre(1, 2, 4, 5, 7, 8));
}

TEST(SpoolFolder, AnAckedFileWithoutSenseSendsAllAgain) {
  TempDir dir;
  storage::LocalFileSystem files;
  SpoolFiles small(files, dir.path());
  for (const char* text : {"", "x", "12", "12 \n", "-1\n", "12\n13\n", "99999999999999999999\n",
                           "12,13\n", "\n", " 1\n"}) {
    write_file(dir / "acked", text);
    EXPECT_EQ(small.acked().seq, 0) << text;
  }
  small.save(Acked{120, {17, 44}});
  EXPECT_EQ(test::slurp(dir / "acked"), "120 17 44\n");
  EXPECT_EQ(small.acked().seq, 120);
  EXPECT_THAT(small.acked().later, ElementsAre(17, 44));
}

TEST(SpoolFolder, SegmentsRotateAndAReaderFollows) {
  TempDir dir;
  storage::LocalFileSystem files;
  Spool spool(files, dir / "uid", kIgnore);
  SpoolReader reader(files, dir / "uid");
  std::uint64_t num_read = 0;
  for (int i = 0; i < 30; ++i) {
    spool.append(RecordKind::tags, tag(std::string(400'000, 'x')));
    if (i % 3 == 0)
      while (reader.next()) ++num_read;
  }
  while (reader.next()) ++num_read;
  EXPECT_EQ(num_read, 30);
  EXPECT_TRUE(std::filesystem::exists(dir / "uid" / "00000003.jsonl"));
}

// All that flush() promised is there after any power loss, at every call, in its order.
TEST(SpoolPowerLoss, TakesNothingThatWasFlushed) {
  int num_states = 0;
  for (int cut = 1;; ++cut) {
    CrashStore store;
    store.create_folder("/spool");
    store.sync_folder("/");
    store.cut_at(cut);
    std::uint64_t promised = 0, acked = 0;
    bool was_cut = false;
    try {
      for (int start = 0; start < 2; ++start) {
        Spool spool(store, "/spool/uid", kIgnore);
        for (int i = 0; i < 4; ++i) {
          spool.append(RecordKind::tags, tag("x"));
          if (i % 2 == 1 && spool.flush()) promised = spool.last_seq();
          spool.with_files([&](SpoolFiles& small) { small.save(Acked{promised, {}}); });
          acked = promised;
        }
        spool.with_files([&](SpoolFiles& small) { small.save(SpooledRun{.run_uid = "uid"}); });
      }
    } catch (const CrashStore::PowerCut&) {
      was_cut = true;
    }
    for (std::uint64_t seed = 0; seed < 100; ++seed, ++num_states) {
      CrashStore after(store);
      after.power_loss(seed);
      std::vector<std::uint64_t> seen;
      Spool spool(after, "/spool/uid", [&](const Record& r) { seen.push_back(r.seq); });
      ASSERT_TRUE(std::is_sorted(seen.begin(), seen.end()));
      for (std::uint64_t seq = 1; seq <= promised; ++seq)
        ASSERT_TRUE(std::binary_search(seen.begin(), seen.end(), seq))
            << "record " << seq << " of " << promised << ", cut " << cut << ", seed " << seed;
      const auto now = spool.with_files([](SpoolFiles& small) { return small.acked(); });
      ASSERT_LE(now.seq, std::max(promised, acked));
      ASSERT_TRUE(spool.append(RecordKind::tags, tag("next")));
      ASSERT_TRUE(spool.flush());
      ASSERT_GT(spool.last_seq(), promised);
    }
    if (!was_cut) break;
  }
  EXPECT_GT(num_states, 2000);
}

TEST(SpoolDiskFaults, EveryFailingCallIsSurvivedAndNothingTakenIsLost) {
  for (const bool half : {false, true})
    for (int call = 1; call < 60; ++call) {
      CrashStore store;
      store.create_folder("/spool");
      store.sync_folder("/");
      Spool spool(store, "/spool/uid", kIgnore);
      store.fail(call, ENOSPC, CrashStore::Fail::once, half);
      for (int i = 0; i < 6; ++i) {
        ASSERT_TRUE(spool.append(RecordKind::tags, tag("x")));
        spool.flush();
      }
      store.disarm();
      ASSERT_TRUE(spool.flush());
      store.power_loss(static_cast<std::uint64_t>(call));
      ASSERT_THAT(seqs_in(store, "/spool/uid"), ElementsAre(1, 2, 3, 4, 5, 6)) << call;
    }
}

TEST(SpoolDiskFaults, AFullDiskDropsOnlyWhatMemoryDoesNotHold) {
  CrashStore store;
  store.create_folder("/spool");
  Spool spool(store, "/spool/uid", kIgnore);
  store.fail(1, ENOSPC, CrashStore::Fail::always);
  int num_taken = 0;
  for (int i = 0; i < 20; ++i)
    num_taken += spool.append(RecordKind::tags, tag(std::string(1'000'000, 'x')));
  EXPECT_EQ(num_taken, 8);
  EXPECT_FALSE(spool.flush());
  store.disarm();
  EXPECT_TRUE(spool.flush());
  EXPECT_EQ(seqs_in(store, "/spool/uid").size(), 8);
  EXPECT_TRUE(spool.append(RecordKind::tags, tag("again")));
}

}  // namespace
}  // namespace wmtp::tracking::mlflow
