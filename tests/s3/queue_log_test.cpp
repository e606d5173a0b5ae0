#include "wmtp/s3/queue/queue_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "support/crash_store.h"
#include "wmtp/s3/queue/queue_records.h"
#include "wmtp/s3/queue/upload_queue.h"

namespace wmtp::s3 {
namespace {

using test::CrashStore;

const std::filesystem::path kPlace = "/save/.uploads/tiny";

QueueEntry sample_entry(std::string name = "tiny-2steps", std::uint64_t order = 1) {
  return {.name = std::move(name),
          .version = "v1",
          .order = order,
          .files = {{"model/a", 10}, {"b", 20}, {"manifest.json", 30}},
          .pointers = {"tiny-latest"}};
}

void make_place(CrashStore& store) {
  for (const char* folder : {"/save", "/save/.uploads", "/save/.uploads/tiny"})
    store.create_folder(folder);
  for (const char* folder : {"/", "/save", "/save/.uploads"}) store.sync_folder(folder);
}

UploadState begun(int num_parts) {
  UploadState state{"id <1>", 5 << 20, {}};
  for (int i = 1; i <= num_parts; ++i) state.parts[i] = {std::to_string(i), "md5"};
  return state;
}

TEST(QueueLog, WhatIsNotedIsRead) {
  CrashStore store;
  make_place(store);
  QueueLog log(store, kPlace, sample_entry());
  log.note_state(0, begun(0));
  log.note_state(0, begun(2));
  log.note_up(0);
  log.note_state(1, begun(1));
  log.note_state(1, begun(3));
  log.note_pointer("tiny-best");
  const std::vector<QueueEntry> read = read_queue(store, kPlace);
  ASSERT_EQ(read.size(), 1U);
  const QueueEntry& entry = read[0];
  EXPECT_EQ(entry.pointers, (std::vector<std::string>{"tiny-latest", "tiny-best"}));
  ASSERT_EQ(entry.files.size(), 3U);
  EXPECT_TRUE(entry.files[0].is_up);
  EXPECT_TRUE(entry.files[0].state.upload_id.empty());
  EXPECT_EQ(entry.files[1].state.upload_id, "id <1>");
  EXPECT_EQ(entry.files[1].state.parts.size(), 3U);
  EXPECT_EQ(entry.files[2].bytes, 30U);
  // Written anew it says the same.
  EXPECT_EQ(records_of(parse_records(records_of(entry), entry.name)), records_of(entry));
  log.remove();
  EXPECT_TRUE(read_queue(store, kPlace).empty());
}

TEST(QueueLog, ATornRecordIsIgnoredWithAllBehindIt) {
  const std::string text = records_of(sample_entry());
  const std::string more = text + begin_record(1, begun(0)) + part_record(1, 1, {"e", "m"});
  for (std::size_t end = text.size(); end < more.size(); ++end) {
    const QueueEntry entry = parse_records(more.substr(0, end), "tiny-2steps");
    EXPECT_EQ(entry.files[1].state.parts.size(), 0U);
  }
  for (std::size_t at = text.size(); at < more.size(); ++at) {
    std::string damaged = more;
    damaged[at] ^= 1;
    const QueueEntry entry = parse_records(damaged, "tiny-2steps");
    EXPECT_TRUE(entry.files[1].state.parts.empty()) << at;
  }
}

TEST(QueueLog, AFileThatIsNoneIsLeftOut) {
  const auto refused = [](const std::string& text, std::string_view name = "tiny-2steps") {
    try {
      parse_records(text, name);
      return false;
    } catch (const Error& error) {
      return error.kind() == ErrorKind::data;
    }
  };
  const std::string text = records_of(sample_entry());
  for (std::size_t end = 0; end < text.size(); ++end) EXPECT_TRUE(refused(text.substr(0, end)));
  EXPECT_TRUE(refused(text, "tiny-4steps"));
  QueueEntry outside = sample_entry();
  outside.files[0].path = "../../secret";
  EXPECT_TRUE(refused(records_of(outside)));
  EXPECT_TRUE(refused(text + up_record(3)));
  CrashStore store;
  make_place(store);
  QueueLog first(store, kPlace, sample_entry());
  QueueLog second(store, kPlace, sample_entry("tiny-4steps", 2));
  store.bytes(kPlace / "tiny-2steps.queue")[3] ^= 1;
  const std::vector<QueueEntry> read = read_queue(store, kPlace);
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].name, "tiny-4steps");
}

// Every storage call as the cut, each with several damages: an entry that was queued is there with
// its files, and nothing that was noted as up is not.
TEST(QueueLog, SurvivesPowerCuts) {
  const auto use = [](CrashStore& store, int& done) {
    QueueLog log(store, kPlace, sample_entry());
    done = 1;
    log.note_state(0, begun(0));
    log.note_state(0, begun(1));
    done = 2;
    log.note_up(0);
    done = 3;
    log.note_pointer("tiny-best");
    done = 4;
  };
  int num_calls = 0;
  {
    CrashStore store;
    make_place(store);
    store.disarm();
    int done = 0;
    use(store, done);
    num_calls = store.num_calls();
  }
  ASSERT_GT(num_calls, 10);
  int num_torn = 0;
  for (int cut = 1; cut <= num_calls + 1; ++cut)
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      CrashStore store;
      make_place(store);
      store.cut_at(cut);
      int done = 0;
      try {
        use(store, done);
      } catch (const CrashStore::PowerCut&) {
      }
      store.disarm();
      store.power_loss(seed);
      const std::vector<QueueEntry> read = read_queue(store, kPlace);
      if (done >= 1) {
        ASSERT_EQ(read.size(), 1U) << cut << " " << seed;
      }
      if (read.empty()) continue;
      const QueueEntry& entry = read[0];
      EXPECT_EQ(entry.files.size(), 3U);
      EXPECT_FALSE(entry.files[1].is_up);
      if (done >= 3) {
        EXPECT_TRUE(entry.files[0].is_up);
      }
      if (done < 2) {
        EXPECT_FALSE(entry.files[0].is_up);
      }
      if (done >= 4) {
        EXPECT_EQ(entry.pointers.size(), 2U);
      }
      if (done == 2 && entry.files[0].state.parts.empty()) ++num_torn;
      const QueueLog again(store, kPlace, entry);  // a restart goes on from it
      EXPECT_EQ(records_of(read_queue(store, kPlace).at(0)), records_of(entry));
    }
  EXPECT_GT(num_torn, 0) << "no cut lost anything: the test would prove nothing";
}

// Without a session nothing is sent: what the queue decides by itself.
struct OfflineQueue : testing::Test {
  CrashStore store;
  std::unique_ptr<UploadQueue> open() {
    return std::make_unique<UploadQueue>(
        store, nullptr, QueueOptions{.root = "/save", .place = kPlace, .most_waiting = 2});
  }
};

TEST_F(OfflineQueue, IsThereAfterARestart) {
  store.create_folder("/save");
  open()->add(sample_entry());
  const auto queue = open();
  EXPECT_EQ(queue->pending(), std::set<std::string>{"tiny-2steps"});
  EXPECT_EQ(queue->figures().num_pending, 1U);
  EXPECT_FALSE(queue->wait_until_empty(std::chrono::hours(1), [] { return false; }));
}

TEST_F(OfflineQueue, TheNewestAndWhatPointersNameStay) {
  store.create_folder("/save");
  const auto queue = open();
  for (int step = 1; step <= 6; ++step) {
    QueueEntry entry = sample_entry("tiny-" + std::to_string(step) + "steps");
    if (step <= 2) entry.pointers.emplace_back("tiny-best");
    queue->add(std::move(entry));
  }
  const std::set<std::string> left{"tiny-2steps", "tiny-5steps", "tiny-6steps"};
  EXPECT_EQ(queue->pending(), left);
  EXPECT_EQ(queue->figures().folders_left_out, 3);
  EXPECT_EQ(open()->pending(), left);
}

TEST_F(OfflineQueue, TheSameFolderAgainIsOneEntryAndAnotherOfItsNameTakesItsPlace) {
  store.create_folder("/save");
  const auto queue = open();
  queue->add(sample_entry());
  QueueEntry again = sample_entry();
  again.pointers = {"tiny-latest", "tiny-final"};
  queue->add(again);
  const std::vector<std::string> all{"tiny-latest", "tiny-final"};
  EXPECT_EQ(read_queue(store, kPlace).at(0).pointers, all);
  QueueEntry other = sample_entry();
  other.version = "v2";
  queue->add(other);
  const std::vector<QueueEntry> read = read_queue(store, kPlace);
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].version, "v2");
  EXPECT_EQ(read[0].pointers, std::vector<std::string>{"tiny-latest"});
}

// What gives up its place goes only once the newer one is safe.
TEST(QueuePowerCuts, TheNewestThatWereTakenAreThere) {
  const auto fill = [](CrashStore& store, int& done) {
    UploadQueue queue(store, nullptr, {.root = "/save", .place = kPlace, .most_waiting = 2});
    for (int step = 1; step <= 4; ++step) {
      queue.add(sample_entry("tiny-" + std::to_string(step) + "steps"));
      done = step;
    }
  };
  CrashStore whole;
  make_place(whole);
  whole.disarm();
  int all = 0;
  fill(whole, all);
  const int num_calls = whole.num_calls();
  ASSERT_GT(num_calls, 20);
  for (int cut = 1; cut <= num_calls + 1; ++cut)
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      CrashStore store;
      make_place(store);
      store.cut_at(cut);
      int done = 0;
      try {
        fill(store, done);
      } catch (const CrashStore::PowerCut&) {
      }
      store.disarm();
      store.power_loss(seed);
      std::set<std::string> left;
      for (const QueueEntry& entry : read_queue(store, kPlace)) left.insert(entry.name);
      EXPECT_GE(left.size(), static_cast<std::size_t>(std::min(done, 2))) << cut << " " << seed;
      if (done > 0) {
        EXPECT_TRUE(left.contains("tiny-" + std::to_string(done) + "steps")) << cut << " " << seed;
      }
    }
}

TEST_F(OfflineQueue, AFullDiskIsNoError) {
  store.create_folder("/save");
  const auto queue = open();
  store.fail(1, ENOSPC, CrashStore::Fail::always);
  queue->add(sample_entry());
  EXPECT_EQ(queue->pending(), std::set<std::string>{"tiny-2steps"});
  store.disarm();
  EXPECT_TRUE(read_queue(store, kPlace).empty());
}

}  // namespace
}  // namespace wmtp::s3
