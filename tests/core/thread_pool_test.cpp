#include "wmtp/core/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <set>

#include "support/expect_error.h"

namespace wmtp {
namespace {

TEST(ThreadPool, ReturnsResultsAndExceptionsThroughTheFuture) {
  ThreadPool pool(2);
  auto answer = pool.submit([] { return 6 * 7; });
  auto failure = pool.submit([]() -> int { throw Error(ErrorKind::data, "test", "bad row 3"); });
  EXPECT_EQ(answer.get(), 42);
  EXPECT_WMTP_ERROR(failure.get(), ErrorKind::data, "bad row 3");
}

TEST(ThreadPool, TakesMoveOnlyTasks) {
  ThreadPool pool(1);
  auto value = std::make_unique<int>(5);
  EXPECT_EQ(pool.submit([value = std::move(value)] { return *value; }).get(), 5);
}

TEST(ThreadPool, RunsEverythingBeforeItEnds) {
  std::atomic<int> count = 0;
  {
    ThreadPool pool(3);
    for (int i = 0; i < 1000; ++i) (void)pool.submit([&] { ++count; });
  }
  EXPECT_EQ(count, 1000);
}

TEST(ThreadPool, OneThreadKeepsTheOrder) {
  std::vector<int> seen;
  {
    ThreadPool pool(1);
    for (int i = 0; i < 100; ++i) (void)pool.submit([&seen, i] { seen.push_back(i); });
  }
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(seen, expected);
}

TEST(ThreadPool, HasAtLeastOneThread) {
  EXPECT_WMTP_ERROR(ThreadPool(0), ErrorKind::internal, "0 threads");
}

}  // namespace
}  // namespace wmtp
