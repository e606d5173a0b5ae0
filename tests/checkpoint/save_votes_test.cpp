// What ranks tell each other in a save: time limits, parts that do not come or do not fit, a folder
// that is not shared.
#include <gmock/gmock.h>

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "checkpoint/save_fixture.h"
#include "checkpoint/tiny_state.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/checkpoint/format/folder.h"
#include "wmtp/checkpoint/save/save.h"
#include "wmtp/checkpoint/save/shared_probe.h"

namespace wmtp::checkpoint {
namespace {

using test::CrashStore;
using testing::HasSubstr;

TEST_F(Save, ASilentRankFailsTheSaveAfterTheTimeLimit) {
  LocalExchange vote;
  tiny::RankState state(1, 0, 2);
  Saver saver({.files = store,
               .vote = vote,
               .save_dir = "/s",
               .model = "tiny",
               .run_id = "r",
               .world_size = 2,
               .timeout = std::chrono::milliseconds(20)});
  EXPECT_WMTP_ERROR(saver.save(state.request()), ErrorKind::comm, "part/1");
  EXPECT_TRUE(find_checkpoints(store, "/s", "tiny").empty());
}

// Ranks as threads over a vote of the test's own, one Saver each, as in a run.
std::vector<std::string> save_steps(storage::FileSystem& files, KvExchange& vote, int world_size,
                                    std::int64_t num_steps, std::chrono::milliseconds timeout) {
  std::vector<std::string> errors(static_cast<std::size_t>(world_size));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world_size; ++rank)
    ranks.emplace_back([&, rank] {
      Saver saver({.files = files,
                   .vote = vote,
                   .save_dir = "/s",
                   .model = "tiny",
                   .run_id = "r",
                   .rank = rank,
                   .world_size = world_size,
                   .timeout = timeout});
      for (std::int64_t step = 1; step <= num_steps; ++step) try {
          tiny::RankState state(step, rank, world_size);
          if (step % 3 == 0) state.request().state_hash = std::to_string(rank);  // it fails
          saver.save(state.request());
        } catch (const Error& error) {
          errors[static_cast<std::size_t>(rank)] += std::string(error.what()) + "\n";
        }
    });
  for (std::thread& rank : ranks) rank.join();
  return errors;
}

class CountingExchange final : public KvExchange {
 public:
  void post(std::string_view key, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    keys_.emplace(key);
    most_ = std::max(most_, keys_.size());
    votes_.post(key, value);
  }
  std::optional<std::string> wait(std::string_view key,
                                  std::chrono::milliseconds timeout) override {
    return votes_.wait(key, timeout);
  }
  void forget(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    keys_.erase(std::string(key));
    votes_.forget(key);
  }
  std::size_t most() const { return most_; }

 private:
  LocalExchange votes_;
  std::mutex mutex_;
  std::set<std::string> keys_;
  std::size_t most_ = 0;
};

TEST_F(Save, VotesDoNotPileUp) {
  constexpr int kRanks = 3, kVotesOfASave = kRanks - 1 + 2;
  for (const int world_size : {1, kRanks}) {
    CountingExchange vote;
    CrashStore files;
    files.create_folder("/s");
    save_steps(files, vote, world_size, 30, std::chrono::seconds(20));
    EXPECT_LE(vote.most(), 3u * kVotesOfASave) << world_size;
    EXPECT_GT(vote.most(), 1u);
  }
}

// A part is there some time after rank 0 first looks for it.
class LateExchange final : public KvExchange {
 public:
  explicit LateExchange(std::chrono::milliseconds late) : late_(late) {}
  void post(std::string_view key, std::string_view value) override { votes_.post(key, value); }
  std::optional<std::string> wait(std::string_view key,
                                  std::chrono::milliseconds timeout) override {
    if (key.find("/part/") == key.npos) return votes_.wait(key, timeout);
    const auto from = first_look_.try_emplace(std::string(key), Clock::now()).first->second + late_;
    std::this_thread::sleep_until(std::min(from, Clock::now() + timeout));
    return Clock::now() < from ? std::nullopt : votes_.wait(key, timeout);
  }
  void forget(std::string_view key) override { votes_.forget(key); }

 private:
  LocalExchange votes_;
  std::chrono::milliseconds late_;
  std::map<std::string, Clock::time_point> first_look_;  // rank 0's thread only
};

TEST_F(Save, OneTimeLimitForThePartsOfAllRanks) {
  LateExchange vote(std::chrono::milliseconds(600));  // each in time, all together not
  const auto errors = save_steps(store, vote, 4, 1, std::chrono::milliseconds(1000));
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("no word of \"part/"));
  EXPECT_TRUE(find_checkpoints(store, "/s", "tiny").empty());
}

TEST_F(Save, WaitingForVotesCanBeAbandoned) {
  LocalExchange vote;
  tiny::RankState state(1, 1, 2);
  int calls = 0;
  Saver saver({.files = store,
               .vote = vote,
               .save_dir = "/s",
               .model = "tiny",
               .run_id = "r",
               .rank = 1,
               .world_size = 2,
               .check_cancelled = [&] {
                 if (++calls == 3) throw Error(ErrorKind::comm, "test", "enough");
               }});
  EXPECT_WMTP_ERROR(saver.save(state.request()), ErrorKind::comm, "enough");
}

TEST_F(Save, APartThatCannotBeSentIsRefusedByTheRankThatHasIt) {
  const float value = 1;
  tiny::RankState state(1, 1, 2);
  for (int i = 0; i < 20'000; ++i)
    state.request().model.push_back({fmt::format("{:0>300}", i),
                                     storage::StoredDtype::F32,
                                     {1},
                                     {0, 1},
                                     std::as_bytes(std::span(&value, 1))});
  for (const char* folder : {"/s/t", "/s/t/model", "/s/t/optim"}) store.create_folder(folder);
  LocalExchange vote;
  vote.post("save/0/1/1/begin", "yes t");
  Saver saver({.files = store,
               .vote = vote,
               .save_dir = "/s",
               .model = "tiny",
               .run_id = "r",
               .rank = 1,
               .world_size = 2});
  EXPECT_WMTP_ERROR(saver.save(state.request()), ErrorKind::checkpoint, "8388608 can be sent");
  EXPECT_THAT(vote.wait("save/0/1/1/part/1", std::chrono::milliseconds(0)).value_or(""),
              HasSubstr("no checkpoint"));
}

TEST(RankParts, WhatARankSentWrongIsNoDamagedFile) {
  for (const char* text : {"", "[", "{}", "[1]", R"({"state":1})", R"({"state":"","model":[]})"})
    EXPECT_WMTP_ERROR(parse_part(text, "rank 1"), ErrorKind::comm, "");
}

TEST(SharedProbe, ARankThatSeesAnotherFolderIsNamed) {
  auto probe = [](CrashStore& zero, CrashStore& one) {
    zero.create_folder("/s");
    if (&zero != &one) one.create_folder("/s");
    LocalExchange vote;
    auto body = [&](int rank) -> std::string {
      try {
        probe_shared_folder({.files = rank ? one : zero,
                             .vote = vote,
                             .save_dir = "/s",
                             .model = "m",
                             .run_id = "r",
                             .rank = rank,
                             .world_size = 2});
        return "";
      } catch (const Error& error) {
        return error.what();
      }
    };
    std::string other;
    std::thread second([&] { other = body(1); });
    const std::string first = body(0);
    second.join();
    EXPECT_TRUE(zero.list("/s").empty());
    return std::pair(first, other);
  };
  CrashStore shared, zero, one;
  EXPECT_EQ(probe(shared, shared), std::pair(std::string(), std::string()));
  const auto [first, other] = probe(zero, one);
  EXPECT_THAT(first, HasSubstr("rank 1 does not see"));
  EXPECT_THAT(other, HasSubstr("rank 1 does not see"));
}

TEST(KvExchange, FilesReachOtherProcesses) {
  const test::TempDir folder;
  FileExchange one(folder.path()), other(folder.path());
  EXPECT_FALSE(other.wait("save/1/part/0", std::chrono::milliseconds(5)));
  one.post("save/1/part/0", std::string(100'000, 'x'));
  EXPECT_EQ(other.wait("save/1/part/0", std::chrono::milliseconds(0)), std::string(100'000, 'x'));
  one.forget("save/1/part/0");
  EXPECT_FALSE(other.wait("save/1/part/0", std::chrono::milliseconds(0)));
  one.forget("save/1/part/0");  // it is gone already
}

}  // namespace
}  // namespace wmtp::checkpoint
