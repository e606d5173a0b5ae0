#include "wmtp/core/log/log_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "wmtp/core/log/line_recorder.h"

namespace wmtp::log {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;

constexpr const char* kTime = "2026-11-15T06:31:00.123Z";

Line line_of(Level level, std::string text) {
  return {level, kTime, "m", std::move(text)};
}

std::vector<std::string> lines_in(const std::filesystem::path& path) {
  std::istringstream text(test::slurp(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

class LogFileTest : public testing::Test {
 protected:
  std::vector<std::string> lines() const { return lines_in(path); }

  test::TempDir folder;
  std::filesystem::path path = folder / "logs/rank_3.log";
  FileOptions options{.path = path, .rank = 3, .world = 4, .restart_count = 2};
};

TEST_F(LogFileTest, EachStartIsMarkedAndAppendsWithTheMessagesBeforeIt) {
  for (const char* text : {"first", "second"}) {
    LineRecorder recorder;
    EXPECT_EQ(recorder.add(line_of(Level::info, text)), "");
    EXPECT_EQ(recorder.add(line_of(Level::debug, "not asked for")), "");
    EXPECT_EQ(recorder.open(options), "");
    EXPECT_EQ(recorder.add(line_of(Level::warn, "later")), "");
    EXPECT_EQ(recorder.add(line_of(Level::debug, "not asked for")), "");
  }
  const std::string mark =
      "^20..-..-..T..:..:..[.]...Z info .log. ==== start: rank 3 of 4, pid [0-9]+, host .+, "
      "restart 2 ====$";
  const std::string stamp = kTime;
  EXPECT_THAT(lines(), ElementsAre(ContainsRegex(mark), stamp + " info [m] first",
                                   stamp + " warning [m] later", ContainsRegex(mark),
                                   stamp + " info [m] second", stamp + " warning [m] later"));
}

TEST_F(LogFileTest, IsForItsOwnerAlone) {
  const mode_t before = ::umask(0);
  LineRecorder recorder;
  recorder.open(options);
  ::umask(before);
  struct stat file {
  }, parent{};
  ASSERT_EQ(::stat(path.c_str(), &file), 0);
  ASSERT_EQ(::stat(path.parent_path().c_str(), &parent), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600U);
  EXPECT_EQ(parent.st_mode & 0777, 0700U);
}

TEST_F(LogFileTest, KeepsTheFirstEarlyMessagesAndCountsTheOthers) {
  LineRecorder recorder;
  for (std::size_t i = 0; i < kMaxEarlyLines + 7; ++i)
    recorder.add(line_of(Level::info, std::to_string(i)));
  recorder.open(options);
  ASSERT_THAT(lines(), SizeIs(kMaxEarlyLines + 2));
  EXPECT_THAT(lines().back(), EndsWith("7 messages before this file was opened are missing here"));
}

TEST_F(LogFileTest, EveryLineOfAMessageHasItsTime) {
  LineRecorder recorder;
  recorder.open(options);
  recorder.add(line_of(Level::error, "a\n2026-11-15T06:31:00.123Z info [log] forged\n"));
  recorder.add(line_of(Level::error, ""));
  ASSERT_THAT(lines(), SizeIs(4));
  EXPECT_EQ(lines()[2],
            std::string(kTime) + " error [m] 2026-11-15T06:31:00.123Z info [log] forged");
  EXPECT_EQ(lines()[3], std::string(kTime) + " error [m] ");
}

TEST_F(LogFileTest, JsonIsAnObjectPerMessage) {
  options.json = true;
  LineRecorder recorder;
  recorder.open(options);
  recorder.add(line_of(Level::warn, "a \"b\"\nc"));
  ASSERT_THAT(lines(), SizeIs(2));
  const auto start = nlohmann::json::parse(lines()[0]);
  EXPECT_EQ(start["type"], "start");
  EXPECT_EQ(start["restart"], 2);
  EXPECT_EQ(start["pid"], ::getpid());
  EXPECT_EQ(lines()[1], R"({"type":"warning","ts":"2026-11-15T06:31:00.123Z","level":"warning",)"
                        R"("module":"m","message":"a \"b\"\nc","rank":3})");
}

TEST_F(LogFileTest, HalfALineOfAKilledStartIsEnded) {
  options.path = folder / "half";
  test::write_file(options.path, "2026-11-15T06:3");
  LineRecorder recorder;
  recorder.open(options);
  EXPECT_THAT(lines_in(options.path), ElementsAre("2026-11-15T06:3", HasSubstr("start")));
}

TEST_F(LogFileTest, ALinkAFifoOrAFolderInItsPlaceIsRefused) {
  std::filesystem::create_directories(path.parent_path());
  const auto expect_refusal = [&](const char* why) {
    LineRecorder recorder;
    EXPECT_WMTP_ERROR(recorder.open(options), ErrorKind::io, why);
    std::filesystem::remove(path);
  };
  std::filesystem::create_symlink(folder / "target", path);
  expect_refusal("symbolic link");
  EXPECT_FALSE(std::filesystem::exists(folder / "target"));
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expect_refusal("not a regular file");
  std::filesystem::create_directory(path);
  expect_refusal("a folder");
}

TEST_F(LogFileTest, AFolderThatCannotBeMadeIsToldOnce) {
  test::write_file(folder / "logs", "a file");
  LineRecorder recorder;
  EXPECT_THAT(recorder.open(options), HasSubstr("the log file of this rank ends here"));
  EXPECT_EQ(recorder.add(line_of(Level::error, "on")), "");
}

TEST_F(LogFileTest, ARemovedFileIsToldOnce) {
  LineRecorder recorder;
  recorder.open(options);
  std::filesystem::remove_all(path.parent_path());
  EXPECT_THAT(recorder.add(line_of(Level::error, "on")), HasSubstr("it was removed"));
  EXPECT_EQ(recorder.add(line_of(Level::error, "on")), "");
  EXPECT_FALSE(std::filesystem::exists(path));
}

// As on a full disk: the write takes a part, and then nothing.
TEST_F(LogFileTest, AFileThatTakesNoMoreIsToldOnce) {
  LineRecorder recorder;
  recorder.open(options);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto usual = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{std::filesystem::file_size(path) + 10, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string told = recorder.add(line_of(Level::error, std::string(100, 'x')));
  const std::string again = recorder.add(line_of(Level::error, "on"));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, usual);
  EXPECT_THAT(told, HasSubstr("File too large; the log file of this rank ends here"));
  EXPECT_EQ(again, "");
}

// The logger of the process: what comes before close_file() is in the file, whatever stderr shows.
TEST_F(LogFileTest, WhatManyThreadsLogIsThereInWholeEscapedLines) {
  constexpr int kThreads = 4, kLines = 200;
  configure({.level = Level::error});
  testing::internal::CaptureStderr();
  open_file(options);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < kLines; ++i) info("m", "thread {} line {}\x1b[2J end", t, i);
    });
  for (std::thread& thread : threads) thread.join();
  write_to_file(Level::error, "m", "why it ended");
  close_file();
  error("m", "shown, not kept");
  configure({});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), EndsWith("error [m] shown, not kept\n"));
  std::vector<int> next(kThreads);
  const std::vector<std::string> all = lines();
  for (const std::string& line : all) {
    int thread = 0, number = 0;
    const std::size_t at = line.find("thread ");
    if (at == std::string::npos) continue;
    ASSERT_EQ(std::sscanf(line.c_str() + at, "thread %d line %d", &thread, &number), 2) << line;
    EXPECT_THAT(line, EndsWith("\\u001b[2J end"));
    EXPECT_EQ(next[static_cast<std::size_t>(thread)]++, number);
  }
  EXPECT_THAT(next, testing::Each(kLines));
  EXPECT_THAT(all.back(), EndsWith(" error [m] why it ended"));
}

TEST_F(LogFileTest, AFileThatEndsIsWarnedOfOnStderr) {
  test::write_file(folder / "logs", "a file");
  testing::internal::CaptureStderr();
  open_file(options);
  info("m", "on");
  const std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_THAT(shown, HasSubstr("warning [log] cannot write to " + path.string()));
  EXPECT_THAT(shown, HasSubstr("info [m] on"));
}

}  // namespace
}  // namespace wmtp::log
