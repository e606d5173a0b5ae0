#include "wmtp/checkpoint/restart_guard.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/checkpoint/format/folder.h"

namespace wmtp::checkpoint {
namespace {

class StartRecord : public ::testing::Test {
 protected:
  StartRequest request(const std::string& run_id) const {
    return {folder.path(), "m", this_process(run_id), "one", newest};
  }
  void start(const std::string& run_id) { record_start(request(run_id)); }
  std::filesystem::path file() const { return start_record_path(folder.path(), "m"); }

  test::TempDir folder;
  std::optional<std::int64_t> newest;
};

TEST_F(StartRecord, TheFourthStartWithoutAStepIsRefused) {
  for (const char* run : {"a", "b", "c"}) start(run);
  for (int again = 0; again < 2; ++again)
    EXPECT_WMTP_ERROR(start("d"), ErrorKind::internal, "3 starts in a row ended without a first");
  std::filesystem::remove(file());
  start("e");
}

TEST_F(StartRecord, TheMessageNamesStartsStepAndTheWayOut) {
  newest = 20;
  for (const char* run : {"a", "b", "c"}) start(run);
  try {
    start("d");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.fact().find("newer than step 20"), std::string::npos) << error.fact();
    EXPECT_NE(error.fact().find(fmt::format("pid {}", ::getpid())), std::string::npos);
    EXPECT_NE(error.hint().find(file().string()), std::string::npos) << error.hint();
  }
}

TEST_F(StartRecord, ACommittedStepBeginsTheCountAnew) {
  for (int step = 0; step < 20; ++step) {
    start("a");
    if (step % 3 == 2) newest = newest.value_or(0) + 1;
  }
  for (int i = 0; i < 20; ++i) {
    start("b");
    forget_starts(folder.path(), "m");
  }
}

TEST_F(StartRecord, AnErrorThatBlamesTheInputTakesItsStartOff) {
  for (int i = 0; i < 20; ++i) {
    start("x");
    forget_start(folder.path(), "m", "x");
  }
  for (const char* run : {"a", "b", "c"}) start(run);
  forget_start(folder.path(), "m", "never recorded");
  EXPECT_WMTP_ERROR(start("d"), ErrorKind::internal, "3 starts");
}

TEST_F(StartRecord, AnotherConfigurationIsAnotherTry) {
  for (const char* run : {"a", "b", "c"}) start(run);
  StartRequest changed = request("d");
  changed.config = "two";
  record_start(changed);
  start("e");  // and back
}

TEST_F(StartRecord, WhatCannotBeReadCountsAsEmpty) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[1]"),
        std::string(R"({"version":1,"config":"one","newest_step":1e999})"),
        std::string(100'000, '['), std::string(R"({"version":9})")}) {
    std::ofstream(file()) << text;
    start("a");
  }
}

TEST_F(StartRecord, DraftsOfKilledStartsAreCleared) {
  std::ofstream(folder.path() / ".m.starts.tmp-0123456789abcdef") << "{";
  start("a");
  storage::LocalFileSystem files;
  EXPECT_EQ(clear_leftovers(files, folder.path(), "m").size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(file()));
}

}  // namespace
}  // namespace wmtp::checkpoint
