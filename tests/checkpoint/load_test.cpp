#include "wmtp/checkpoint/load/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <future>

#include "checkpoint/tiny_state.h"
#include "support/crash_store.h"
#include "support/expect_error.h"
#include "support/paths.h"
#include "wmtp/checkpoint/format/folder.h"

namespace wmtp::checkpoint {
namespace {

using test::CrashStore;
using testing::HasSubstr;

const std::string kShard = "model/shard-00001-model-00001-of-00003.safetensors";

class Load : public testing::Test {
 protected:
  Load() {
    store.create_folder("/s");
    for (int step = 1; step <= 3; ++step) tiny::expect_saved(store, "/s", step);
  }
  ChooseRequest request() {
    return {.files = store,
            .vote = vote,
            .save_dir = "/s",
            .model = "tiny",
            .attempt = std::to_string(++attempt_),
            .read_pause = std::chrono::milliseconds(1)};
  }
  std::string choose(ChooseRequest request) {
    const auto choice = choose_checkpoint(request);
    return choice ? choice->name : "none";
  }
  bool exists(const std::string& name) {
    return store.status("/s/" + name).kind != storage::FileKind::missing;
  }
  void flip(const std::string& path, std::size_t byte) { store.bytes("/s/" + path)[byte] ^= 1; }

  CrashStore store;
  LocalExchange vote;

 private:
  int attempt_ = 0;
};

TEST_F(Load, TheNewestThatVerifies) {
  EXPECT_EQ(choose(request()), "tiny-3steps");
  flip("tiny-3steps/" + kShard, 400);
  EXPECT_EQ(choose(request()), "tiny-2steps");
  EXPECT_TRUE(exists("tiny-3steps.bad-1"));
  EXPECT_FALSE(exists("tiny-3steps"));
  flip("tiny-2steps/manifest.json", 5);
  flip("tiny-1steps/trainer_state.json", 3);
  EXPECT_WMTP_ERROR(choose(request()), ErrorKind::checkpoint, "trainer_state.json, bytes 0..");
  EXPECT_TRUE(exists("tiny-1steps.bad-1") && exists("tiny-2steps.bad-1"));
  EXPECT_WMTP_ERROR(choose(request()), ErrorKind::checkpoint,  // the next start knows it, too
                    "set aside earlier: tiny-1steps.bad-1, tiny-2steps.bad-1, tiny-3steps.bad-1");
  ChooseRequest asked = request();
  asked.allow_fresh_start = true;
  EXPECT_EQ(choose(asked), "none");
}

TEST_F(Load, AFreshStartMustBeAskedFor) {
  for (const char* name : {"tiny-1steps", "tiny-2steps", "tiny-3steps"})
    flip(std::string(name) + "/manifest.json", 0);
  ChooseRequest asked = request();
  asked.allow_fresh_start = true;
  EXPECT_EQ(choose(asked), "none");
}

TEST_F(Load, OneRunAlone) {
  ChooseRequest own = request();
  own.of_run = "run";
  EXPECT_EQ(choose(own), "tiny-3steps");
  own.attempt = "other";
  own.of_run = "another";
  EXPECT_EQ(choose(own), "none");
  for (const char* name : {"tiny-1steps", "tiny-2steps", "tiny-3steps"})
    flip(std::string(name) + "/manifest.json", 0);
  own.attempt = "damaged";
  EXPECT_EQ(choose(own), "none");
  EXPECT_TRUE(exists("tiny-3steps"));
}

TEST_F(Load, NoFolderAndOtherModelsAreNoCheckpoints) {
  ChooseRequest other = request();
  other.model = "another";
  EXPECT_WMTP_ERROR(choose(other), ErrorKind::config,
                    "holds tiny-3steps and no checkpoint of another");
  other.attempt = "asked";
  other.allow_fresh_start = true;
  EXPECT_EQ(choose(other), "none");
  other.attempt = "missing";
  other.allow_fresh_start = false;
  other.save_dir = "/missing";
  EXPECT_EQ(choose(other), "none");
}

TEST_F(Load, ANamedOneIsThatOneOrAnError) {
  ChooseRequest one = request();
  one.only = "tiny-2steps";
  EXPECT_EQ(choose(one), "tiny-2steps");
  flip("tiny-2steps/manifest.json", 7);
  one.attempt = "again";
  EXPECT_WMTP_ERROR(choose(one), ErrorKind::checkpoint, "manifest.json");
  EXPECT_TRUE(exists("tiny-2steps"));  // not set aside
  one.only = "tiny-9steps";
  one.attempt = "third";
  EXPECT_WMTP_ERROR(choose(one), ErrorKind::checkpoint, "tiny-9steps is no checkpoint of tiny");
}

TEST_F(Load, NewerAndForeignOnesStopAndStay) {
  std::string& text = store.bytes("/s/tiny-3steps/manifest.json");
  text = "{\"something\": \"else\"}";
  EXPECT_WMTP_ERROR(choose(request()), ErrorKind::config, "not one of wmtp");
  EXPECT_TRUE(exists("tiny-3steps"));
}

TEST_F(Load, FailingStorageIsNoVerdict) {
  for (int call = 1;; ++call) {
    CrashStore copy(store);
    ChooseRequest mine{.files = copy,
                       .vote = vote,
                       .save_dir = "/s",
                       .model = "tiny",
                       .attempt = fmt::format("n{}", call),
                       .num_reads = 3,
                       .read_pause = std::chrono::milliseconds(0)};
    copy.fail(call, EIO, CrashStore::Fail::once);
    EXPECT_EQ(choose_checkpoint(mine)->name, "tiny-3steps");  // the second try succeeds
    const bool reached = copy.num_calls() >= call;
    copy.fail(call, EIO, CrashStore::Fail::always);
    mine.attempt += "always";
    if (reached) {
      EXPECT_WMTP_ERROR(choose_checkpoint(mine), ErrorKind::io, "Input/output error");
    }
    copy.disarm();
    for (const char* name : {"/s/tiny-1steps", "/s/tiny-2steps", "/s/tiny-3steps"})
      EXPECT_EQ(copy.status(name).kind, storage::FileKind::folder);
    if (!reached) break;
  }
}

TEST_F(Load, RanksShareTheWorkAndAgree) {
  auto all = [&](const std::string& attempt) {
    std::vector<std::future<std::string>> ranks;
    for (int rank = 0; rank < 3; ++rank)
      ranks.push_back(std::async(std::launch::async, [&, rank] {
        ChooseRequest mine = {.files = store, .vote = vote, .save_dir = "/s", .model = "tiny"};
        mine.rank = rank;
        mine.world_size = 3;
        mine.verify = Verify::full;
        mine.attempt = attempt;
        mine.timeout = std::chrono::milliseconds(20'000);
        try {
          return choose(mine);
        } catch (const Error& error) {
          return std::string(error.what());
        }
      }));
    std::vector<std::string> names;
    for (auto& rank : ranks) names.push_back(rank.get());
    return names;
  };
  EXPECT_THAT(all("a"), testing::Each("tiny-3steps"));
  flip("tiny-3steps/" + kShard, 300);  // one rank's share
  EXPECT_THAT(all("b"), testing::Each("tiny-2steps"));
  store.bytes("/s/tiny-2steps/manifest.json") = "{}";
  EXPECT_THAT(all("c"), testing::Each(HasSubstr("not one of wmtp")));
  flip("tiny-1steps/config.yaml", 0);
  store.bytes("/s/tiny-2steps/manifest.json") = "";
  EXPECT_THAT(all("d"), testing::Each(HasSubstr("none of the checkpoints")));
}

TEST_F(Load, LeftoversAreNoCheckpoints) {
  store.rename("/s/tiny-3steps", "/s/.tiny-3steps.tmp-dead");
  store.rename("/s/tiny-2steps/manifest.json", "/s/tiny-2steps/manifest.deleted");
  store.create_folder("/s/tiny-7steps");
  store.create_folder("/s/tiny-7steps/model");
  store.create_folder("/s/.tiny-8steps.tmp-dead");
  store.create_folder("/s/.other-8steps.tmp-alive");
  EXPECT_EQ(choose(request()), "tiny-1steps");
  clear_leftovers(store, "/s", "tiny");
  std::string names;
  for (const auto& entry : store.list("/s")) names += entry.name + " ";
  EXPECT_EQ(names, ".other-8steps.tmp-alive tiny-1steps ");
  EXPECT_EQ(tiny::fault_of(store, "/s/tiny-1steps", 1), "");
}

TEST_F(Load, WhatWasMovedAsideComesBack) {
  store.rename("/s/tiny-3steps", "/s/.tiny-3steps.old-dead");
  clear_leftovers(store, "/s", "tiny");
  EXPECT_EQ(choose(request()), "tiny-3steps");
}

TEST_F(Load, AFolderThatLostItsManifestIsSetAsideNotRemoved) {
  store.remove_file("/s/tiny-3steps/manifest.json");
  clear_leftovers(store, "/s", "tiny");
  EXPECT_EQ(choose(request()), "tiny-2steps");
  EXPECT_TRUE(exists("tiny-3steps.bad-1"));
}

// One checkpoint per released version of the format, made by tests/golden/checkpoint_v1.py.
TEST(GoldenCheckpoints, Version1Loads) {
  const storage::LocalFileSystem files;
  const auto folder = test::source_dir() / "tests/golden/checkpoint_v1/golden-3steps";
  EXPECT_TRUE(find_damage(files, folder, Verify::full).empty());
  CheckpointReader reader(files, folder);
  EXPECT_EQ(reader.manifest().world_size, 3);
  for (const auto& [name, sign] :
       {std::pair("a.weight", 1.0f), std::pair("optim.state.a.weight.exp_avg", -1.0f)}) {
    std::vector<float> values(60);
    reader.read(name, 0, 60, std::as_writable_bytes(std::span(values)));
    for (int i = 0; i < 60; ++i)
      EXPECT_EQ(values[static_cast<std::size_t>(i)], sign * static_cast<float>(i)) << name;
  }
}

}  // namespace
}  // namespace wmtp::checkpoint
