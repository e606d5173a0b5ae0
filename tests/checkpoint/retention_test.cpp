#include "wmtp/checkpoint/save/retention.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>

#include "checkpoint/tiny_state.h"
#include "support/crash_store.h"
#include "support/expect_error.h"
#include "wmtp/checkpoint/format/folder.h"
#include "wmtp/checkpoint/format/pointer.h"
#include "wmtp/checkpoint/format/removal.h"

namespace wmtp::checkpoint {
namespace {

using test::CrashStore;

class Retention : public testing::Test {
 protected:
  Retention() {
    store.create_folder("/s");
    for (const int step : {9, 10, 11, 100, 2}) tiny::expect_saved(store, "/s", step);
  }
  std::string left(const RetentionRules& rules) {
    CrashStore copy(store);
    apply_retention(copy, "/s", "tiny", rules);
    std::string steps;
    for (const FoundCheckpoint& found : find_checkpoints(copy, "/s", "tiny"))
      steps += fmt::format("{} ", found.step);
    return steps;
  }
  // Retention to two, once for each storage call that fails, and once with none.
  void with_every_call_failing(const std::function<void(CrashStore& left, int call)>& check) {
    for (int call = 1;; ++call) {
      CrashStore copy(store);
      copy.fail(call, EIO, CrashStore::Fail::once);
      bool failed = false;
      try {
        apply_retention(copy, "/s", "tiny", {.keep = 2});
      } catch (const Error&) {
        failed = true;
      }
      copy.disarm();
      check(copy, call);
      if (!failed) break;
    }
  }
  void flip(int step) { store.bytes(fmt::format("/s/tiny-{}steps/manifest.json", step))[3] ^= 1; }
  CrashStore store;
};

TEST_F(Retention, KeepsTheNewestByStepNumber) {
  EXPECT_EQ(left({.keep = 3}), "100 11 10 ");
  EXPECT_EQ(left({.keep = 2}), "100 11 ");
  EXPECT_EQ(left({.keep = 1}), "100 11 ");  // two at least
  EXPECT_EQ(left({.keep = std::nullopt}), "100 11 10 9 2 ");
}

TEST_F(Retention, NeverTheBestTheFinalOrThePinned) {
  write_pointer(store, "/s", "tiny", Pointer::best, "tiny-2steps");
  write_pointer(store, "/s", "tiny", Pointer::final, "tiny-10steps");
  EXPECT_EQ(left({.keep = 2}), "100 11 10 2 ");
  EXPECT_EQ(left({.keep = 2, .pinned = {"tiny-9steps"}}), "100 11 10 9 2 ");
  write_pointer(store, "/s", "tiny", Pointer::best, "tiny-9steps");
  EXPECT_EQ(left({.keep = 2}), "100 11 10 9 ");
}

TEST_F(Retention, ARewoundRunKeepsWhatItSaves) {
  EXPECT_EQ(left({.keep = 2, .newest_step = 10}), "100 11 10 9 ");
  EXPECT_EQ(left({.keep = 2, .newest_step = 2}), "100 11 10 9 2 ");
}

TEST_F(Retention, NeverTheTwoNewestThatVerify) {
  flip(100);
  flip(11);
  EXPECT_EQ(left({.keep = 2}), "100 11 10 9 ");
  flip(9);
  EXPECT_EQ(left({.keep = 2}), "100 11 10 9 2 ");  // a damaged one is for resume to set aside
}

TEST_F(Retention, NewerFormatsStay) {
  store.bytes("/s/tiny-2steps/manifest.json") = "{\"of\": \"others\"}";
  EXPECT_EQ(left({.keep = 2}), "100 11 2 ");
}

TEST_F(Retention, AFailureInTheMiddleLeavesNoHalfCheckpoint) {
  with_every_call_failing([](CrashStore& left, int call) {
    for (const FoundCheckpoint& found : find_checkpoints(left, "/s", "tiny"))
      EXPECT_EQ(tiny::fault_of(left, "/s/" + found.name, found.step), "") << call;
    clear_leftovers(left, "/s", "tiny");
    for (const FoundCheckpoint& found : find_checkpoints(left, "/s", "tiny"))
      EXPECT_EQ(tiny::fault_of(left, "/s/" + found.name, found.step), "") << call;
    EXPECT_GE(find_checkpoints(left, "/s", "tiny").size(), 2u);
  });
}

// Who the best is must be known before anything goes.
TEST_F(Retention, NothingGoesWhileThePointersCannotBeRead) {
  write_pointer(store, "/s", "tiny", Pointer::best, "tiny-2steps");
  with_every_call_failing([](CrashStore& left, int call) {
    EXPECT_EQ(tiny::fault_of(left, "/s/tiny-2steps", 2), "") << call;
  });
  store.bytes("/s/tiny-best") = "tiny-2st";
  EXPECT_WMTP_ERROR(apply_retention(store, "/s", "tiny", {.keep = 2}), ErrorKind::checkpoint,
                    "tiny-best names no checkpoint");
  EXPECT_EQ(find_checkpoints(store, "/s", "tiny").size(), 5u);
}

TEST_F(Retention, APointerHoldsAName) {
  write_pointer(store, "/s", "tiny", Pointer::latest, "tiny-100steps");
  EXPECT_EQ(store.bytes("/s/tiny-latest"), "tiny-100steps\n");
  EXPECT_EQ(read_pointer(store, "/s", "tiny", Pointer::latest), "tiny-100steps");
  for (const char* bad : {"", "tiny-100steps", "../x\n", "other-1steps\n", "x\n"}) {
    store.bytes("/s/tiny-latest") = bad;
    EXPECT_WMTP_ERROR(read_pointer(store, "/s", "tiny", Pointer::latest), ErrorKind::checkpoint,
                      "tiny-latest names no checkpoint of tiny");
  }
  EXPECT_FALSE(read_pointer(store, "/s", "tiny", Pointer::final));
}

}  // namespace
}  // namespace wmtp::checkpoint
