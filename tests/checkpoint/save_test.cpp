#include "wmtp/checkpoint/save/save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "checkpoint/tiny_state.h"
#include "support/crash_store.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/checkpoint/format/folder.h"
#include "wmtp/checkpoint/save/shared_probe.h"
#include "wmtp/storage/safetensors_header.h"

namespace wmtp::checkpoint {
namespace {

using test::CrashStore;
using testing::HasSubstr;
using tiny::fault_of;
using tiny::save_with;

class Save : public testing::Test {
 protected:
  Save() { store.create_folder("/s"); }
  std::string names() const {
    std::string all;
    for (const auto& entry : store.list("/s")) all += entry.name + " ";
    return all;
  }
  CrashStore store;
};

TEST_F(Save, EveryWorldSizeReadsWhatEveryOtherWrote) {
  for (int writers = 1; writers <= 4; ++writers) {
    tiny::expect_saved(store, "/s", writers, writers);
    EXPECT_EQ(fault_of(store, "/s/" + checkpoint_name("tiny", writers), writers), "");
    for (int readers = 1; readers <= 4; ++readers)
      for (int rank = 0; rank < readers; ++rank) {  // each with a reader of its own, as ranks have
        CheckpointReader reader(store, "/s/" + checkpoint_name("tiny", writers));
        tiny::RankState wanted(writers, rank, readers);
        for (const auto* pieces : {&wanted.request().model, &wanted.request().optim})
          for (const TensorPiece& piece : *pieces) {
            std::vector<std::byte> got(piece.bytes.size());
            reader.read(piece.name, piece.range.begin, piece.range.size(), got);
            EXPECT_TRUE(std::ranges::equal(got, piece.bytes)) << piece.name;
          }
      }
  }
}

TEST_F(Save, AnyRangeOfAnyTensor) {
  tiny::expect_saved(store, "/s", 1, 3);
  CheckpointReader reader(store, "/s/tiny-1steps");
  for (const tiny::TinyTensor& tensor : tiny::tensors()) {
    const auto whole = tiny::content(tensor, 1);
    for (std::int64_t begin = 0; begin <= tensor.numel(); ++begin)
      for (std::int64_t end = begin; end <= tensor.numel(); ++end) {
        const auto got = tiny::read_range(reader, tensor, begin, end - begin);
        ASSERT_TRUE(std::ranges::equal(
            got,
            std::span(whole).subspan(static_cast<std::size_t>(begin) * tensor.item(), got.size())));
      }
  }
  EXPECT_EQ(reader.find("no.such"), nullptr);
}

// Spec example: a matrix [10, 6] and a vector [7] on 3 ranks, 23 elements each.
TEST(ShardFiles, BoxesOfTheFormatsExample) {
  CrashStore store;
  std::string boxes;
  const std::vector<std::byte> matrix(60 * 4), vector(7 * 4);
  for (int rank = 0; rank < 3; ++rank) {
    const std::filesystem::path folder = "/" + std::to_string(rank);
    store.create_folder(folder);
    store.create_folder(folder / "model");
    std::vector<TensorPiece> pieces;
    const layout::Range mine{rank * 23, std::min(67, (rank + 1) * 23)};
    const layout::Range m = layout::intersect(mine, {0, 60});
    pieces.push_back({"m",
                      storage::StoredDtype::F32,
                      {10, 6},
                      m,
                      std::span(matrix).first(static_cast<std::size_t>(m.size()) * 4)});
    if (mine.end > 60) pieces.push_back({"v", storage::StoredDtype::F32, {7}, {0, 7}, vector});
    for (const FileRecord& file : write_shards({store, folder, rank}, pieces, {}))
      for (const BoxRecord& box : file.boxes)
        boxes += fmt::format("{} {} {} {}\n", file.path.substr(12, 17), box.tensor,
                             storage::shape_text(box.offsets), storage::shape_text(box.shape));
  }
  EXPECT_EQ(boxes,
            "00001-model-00001 m [0, 0] [3, 6]\n00001-model-00003 m [3, 0] [1, 5]\n"
            "00002-model-00001 m [4, 0] [3, 6]\n00002-model-00002 m [3, 5] [1, 1]\n"
            "00002-model-00003 m [7, 0] [1, 4]\n"
            "00003-model-00001 m [8, 0] [2, 6]\n00003-model-00001 v [0] [7]\n"
            "00003-model-00002 m [7, 4] [1, 2]\n");
  const std::string& bytes = store.bytes("/1/model/shard-00002-model-00002-of-00003.safetensors");
  const auto header = storage::parse_safetensors_header(
      std::as_bytes(std::span(bytes.data(), bytes.size())), bytes.size(), "file");
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(header.metadata.at("DCP_VERSION"), "1.0");
  EXPECT_EQ(header.metadata.at("DCP_SHARDING_INFO"), R"({"m": {"saved_offsets": [3, 5]}})");
}

TEST(ShardFiles, WhatPythonCannotReadIsRefused) {
  CrashStore store;
  const std::vector<std::byte> bytes(8);
  auto write = [&](TensorPiece piece) { check_pieces(std::span(&piece, 1)); };
  using enum storage::StoredDtype;
  write({"x", F32, {2}, {0, 2}, bytes});
  EXPECT_WMTP_ERROR(write({"x", I64, {1}, {0, 1}, bytes}), ErrorKind::internal, "floating-point");
  EXPECT_WMTP_ERROR(write({"x", F64, {}, {0, 1}, bytes}), ErrorKind::internal, "rank 1 or 2");
  EXPECT_WMTP_ERROR(write({"x", F32, {1, 1, 2}, {0, 2}, bytes}), ErrorKind::internal,
                    "rank 1 or 2");
  EXPECT_WMTP_ERROR(write({"x", F32, {2}, {0, 0}, {}}), ErrorKind::internal, "range");
  EXPECT_WMTP_ERROR(write({"x", F32, {2}, {0, 3}, bytes}), ErrorKind::internal, "range");
  EXPECT_WMTP_ERROR(write({"x", F32, {2}, {0, 1}, bytes}), ErrorKind::internal, "bytes");
}

TEST_F(Save, LargeFilesAreHashedInASecondThread) {
  const std::vector<float> values(1 << 20, 1.5f);
  LocalVote vote;
  Saver saver({.files = store, .vote = vote, .save_dir = "/s", .model = "big", .run_id = "r"});
  SaveRequest request;
  request.step = 1;
  request.trainer_state = "{}";
  request.model = {{"w",
                    storage::StoredDtype::F32,
                    {1024, 1024},
                    {0, 1 << 20},
                    std::as_bytes(std::span(values))}};
  EXPECT_EQ(saver.save(request).name, "big-1steps");
  EXPECT_TRUE(find_damage(store, "/s/big-1steps", Verify::full).empty());
}

TEST_F(Save, TheSameStepAgainDoesNothing) {
  LocalVote vote;
  Saver saver({.files = store, .vote = vote, .save_dir = "/s", .model = "tiny", .run_id = "r"});
  tiny::RankState state(5, 0, 1);
  EXPECT_FALSE(saver.save(state.request()).already_there);
  const std::string first = CheckpointReader(store, "/s/tiny-5steps").manifest().self_sha256;
  EXPECT_TRUE(saver.save(state.request()).already_there);
  EXPECT_EQ(CheckpointReader(store, "/s/tiny-5steps").manifest().self_sha256, first);
  EXPECT_EQ(names(), "tiny-5steps ");
}

// After a failed fsync of the folder nobody knows what the disk holds: asking once more is no
// proof.
TEST_F(Save, WhatWasRenamedButNotSyncedIsWrittenAnew) {
  LocalVote vote;
  Saver saver({.files = store, .vote = vote, .save_dir = "/s", .model = "tiny", .run_id = "r"});
  tiny::RankState state(5, 0, 1);
  failpoint::configure({.spec = "save.parent.fsync=eio", .rank = 0, .log_path = {}});
  EXPECT_THROW(saver.save(state.request()), Error);
  failpoint::configure({.spec = "", .rank = 0, .log_path = {}});
  EXPECT_FALSE(saver.save(state.request()).already_there);
  EXPECT_EQ(names(), "tiny-5steps ");
  EXPECT_EQ(fault_of(store, "/s/tiny-5steps", 5), "");
}

TEST_F(Save, AnotherRunsStepIsReplaced) {
  EXPECT_TRUE(save_with(store, "/s", 5, 2, "first").all_saved());
  EXPECT_TRUE(save_with(store, "/s", 5, 2, "second").all_saved());
  EXPECT_EQ(CheckpointReader(store, "/s/tiny-5steps").manifest().run_id, "second");
  EXPECT_EQ(names(), "tiny-5steps ");
}

TEST_F(Save, ADamagedOneOfThatNameIsSetAside) {
  tiny::expect_saved(store, "/s", 5);
  store.bytes("/s/tiny-5steps/manifest.json")[10] ^= 1;
  tiny::expect_saved(store, "/s", 5);
  EXPECT_EQ(fault_of(store, "/s/tiny-5steps", 5), "");
  EXPECT_EQ(names(), "tiny-5steps tiny-5steps.bad-1 ");
}

TEST_F(Save, RanksThatHoldOtherStateAreNamed) {
  const auto outcome = save_with(store, "/s", 1, 3, "run", [](int rank, SaveRequest& request) {
    if (rank == 1) request.state_hash = "odd";
  });
  for (const std::string& error : outcome.errors) EXPECT_THAT(error, HasSubstr("on rank 1 of 3"));
  EXPECT_TRUE(find_checkpoints(store, "/s", "tiny").empty());
}

TEST_F(Save, PartsThatDoNotMakeUpTheWholeAreRefused) {
  auto outcome = save_with(store, "/s", 1, 2, "run", [](int rank, SaveRequest& request) {
    if (rank == 1) request.optim.clear();
  });
  for (const std::string& error : outcome.errors) EXPECT_THAT(error, HasSubstr("cover"));
  outcome = save_with(store, "/s", 1, 2, "run", [](int rank, SaveRequest& request) {
    if (rank == 1) request.model[0].name = "stranger";
  });
  for (const std::string& error : outcome.errors) EXPECT_THAT(error, HasSubstr("do not make up"));
  EXPECT_TRUE(find_checkpoints(store, "/s", "tiny").empty());
  tiny::expect_saved(store, "/s", 2);
  EXPECT_EQ(names(), "tiny-2steps ");  // the temporary folders went with the next save
}

TEST_F(Save, ASilentRankFailsTheSaveAfterTheTimeLimit) {
  LocalVote vote;
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
std::vector<std::string> save_steps(storage::FileSystem& files, Vote& vote, int world_size,
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

class CountingVote final : public Vote {
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
  LocalVote votes_;
  std::mutex mutex_;
  std::set<std::string> keys_;
  std::size_t most_ = 0;
};

TEST_F(Save, VotesDoNotPileUp) {
  constexpr int kRanks = 3, kVotesOfASave = kRanks - 1 + 2;
  for (const int world_size : {1, kRanks}) {
    CountingVote vote;
    CrashStore files;
    files.create_folder("/s");
    save_steps(files, vote, world_size, 30, std::chrono::seconds(20));
    EXPECT_LE(vote.most(), 3u * kVotesOfASave) << world_size;
    EXPECT_GT(vote.most(), 1u);
  }
}

// A part is there some time after rank 0 first looks for it.
class LateVote final : public Vote {
 public:
  explicit LateVote(std::chrono::milliseconds late) : late_(late) {}
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
  LocalVote votes_;
  std::chrono::milliseconds late_;
  std::map<std::string, Clock::time_point> first_look_;  // rank 0's thread only
};

TEST_F(Save, OneTimeLimitForThePartsOfAllRanks) {
  LateVote vote(std::chrono::milliseconds(600));  // each in time, all together not
  const auto errors = save_steps(store, vote, 4, 1, std::chrono::milliseconds(1000));
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("no word of \"part/"));
  EXPECT_TRUE(find_checkpoints(store, "/s", "tiny").empty());
}

TEST_F(Save, AnAbandonedSaveEndsAtTheNextBlock) {
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  constexpr int kCalls = 12;
  const std::vector<std::byte> values(kBytes);
  LocalVote vote;
  std::atomic<int> calls = 0;
  Saver saver(
      {.files = store, .vote = vote, .save_dir = "/s", .model = "big", .run_id = "r", .go_on = [&] {
         if (++calls > kCalls) throw Error(ErrorKind::comm, "test", "enough");
       }});
  SaveRequest request;
  request.step = 1;
  request.trainer_state = "{}";
  request.model = {{"w", storage::StoredDtype::F32, {kBytes / 4}, {0, kBytes / 4}, values}};
  EXPECT_WMTP_ERROR(saver.save(request), ErrorKind::comm, "enough");
  EXPECT_EQ(names(), ".big-1steps.tmp-r ");
  const auto files = store.list("/s/.big-1steps.tmp-r/model");
  ASSERT_EQ(files.size(), 1u);
  EXPECT_LT(store.bytes("/s/.big-1steps.tmp-r/model/" + files[0].name).size(),
            kCalls * (std::size_t{256} << 10) + 4096);
  EXPECT_LE(calls, kCalls + 4);  // the writer and the hash each once, then the end
}

TEST_F(Save, WaitingForVotesCanBeAbandoned) {
  LocalVote vote;
  tiny::RankState state(1, 1, 2);
  int calls = 0;
  Saver saver({.files = store,
               .vote = vote,
               .save_dir = "/s",
               .model = "tiny",
               .run_id = "r",
               .rank = 1,
               .world_size = 2,
               .go_on = [&] {
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
  LocalVote vote;
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

TEST_F(Save, FreeSpaceIsCheckedFirst) {
  store.set_free_bytes(1000);
  const auto outcome = save_with(store, "/s", 1, 2);
  for (const std::string& error : outcome.errors) EXPECT_THAT(error, HasSubstr("1000 are free"));
  EXPECT_EQ(names(), "");
}

TEST_F(Save, BadNamesAreRefused) {
  LocalVote vote;
  EXPECT_WMTP_ERROR(
      Saver({.files = store, .vote = vote, .save_dir = "/s", .model = "a/b", .run_id = "r"}),
      ErrorKind::config, "model name");
}

TEST(SharedProbe, ARankThatSeesAnotherFolderIsNamed) {
  auto probe = [](CrashStore& zero, CrashStore& one) {
    zero.create_folder("/s");
    if (&zero != &one) one.create_folder("/s");
    LocalVote vote;
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

TEST(Vote, FilesReachOtherProcesses) {
  const test::TempDir folder;
  FileVote one(folder.path()), other(folder.path());
  EXPECT_FALSE(other.wait("save/1/part/0", std::chrono::milliseconds(5)));
  one.post("save/1/part/0", std::string(100'000, 'x'));
  EXPECT_EQ(other.wait("save/1/part/0", std::chrono::milliseconds(0)), std::string(100'000, 'x'));
  one.forget("save/1/part/0");
  EXPECT_FALSE(other.wait("save/1/part/0", std::chrono::milliseconds(0)));
  one.forget("save/1/part/0");  // it is gone already
}

}  // namespace
}  // namespace wmtp::checkpoint
