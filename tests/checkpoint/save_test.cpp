#include "wmtp/checkpoint/save/save.h"

#include <gmock/gmock.h>

#include <atomic>

#include "checkpoint/save_fixture.h"
#include "checkpoint/tiny_state.h"
#include "support/expect_error.h"
#include "wmtp/checkpoint/format/folder.h"
#include "wmtp/core/failpoint.h"

namespace wmtp::checkpoint {
namespace {

using testing::HasSubstr;
using tiny::fault_of;
using tiny::save_with;

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

TEST_F(Save, LargeFilesAreHashedInASecondThread) {
  const std::vector<float> values(1 << 20, 1.5f);
  LocalExchange vote;
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
  LocalExchange vote;
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
  LocalExchange vote;
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

TEST_F(Save, AnAbandonedSaveEndsAtTheNextBlock) {
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  constexpr int kCalls = 12;
  const std::vector<std::byte> values(kBytes);
  LocalExchange vote;
  std::atomic<int> calls = 0;
  Saver saver({.files = store,
               .vote = vote,
               .save_dir = "/s",
               .model = "big",
               .run_id = "r",
               .check_cancelled = [&] {
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

TEST_F(Save, FreeSpaceIsCheckedFirst) {
  store.set_free_bytes(1000);
  const auto outcome = save_with(store, "/s", 1, 2);
  for (const std::string& error : outcome.errors) EXPECT_THAT(error, HasSubstr("1000 are free"));
  EXPECT_EQ(names(), "");
}

TEST_F(Save, BadNamesAreRefused) {
  LocalExchange vote;
  EXPECT_WMTP_ERROR(
      Saver({.files = store, .vote = vote, .save_dir = "/s", .model = "a/b", .run_id = "r"}),
      ErrorKind::config, "model name");
}

}  // namespace
}  // namespace wmtp::checkpoint
