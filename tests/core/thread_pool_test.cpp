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

TEST(ThreadPool, ParallelForCoversEachIndexOnceWithCutsOfTheGrain) {
  for (int num_threads : {1, 2, 5}) {
    ThreadPool pool(num_threads);
    std::vector<std::atomic<int>> visits(1003);
    std::mutex mutex;
    std::set<std::pair<std::int64_t, std::int64_t>> ranges;
    pool.parallel_for(3, 1003, 64, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) ++visits[static_cast<std::size_t>(i)];
      std::lock_guard lock(mutex);
      ranges.emplace(first, last);
    });
    for (std::size_t i = 0; i < visits.size(); ++i) EXPECT_EQ(visits[i], i < 3 ? 0 : 1) << i;
    EXPECT_EQ(ranges.size(), 16u);
    EXPECT_TRUE(ranges.contains({3, 67}));
    EXPECT_TRUE(ranges.contains({963, 1003}));
  }
}

TEST(ThreadPool, ParallelForThrowsTheLowestFailureAfterAllRangesRan) {
  ThreadPool pool(2);
  std::atomic<int> num_run = 0;
  auto body = [&](std::int64_t first, std::int64_t) {
    ++num_run;
    if (first >= 4) throw Error(ErrorKind::data, "test", "range " + std::to_string(first));
  };
  EXPECT_WMTP_ERROR(pool.parallel_for(0, 10, 1, body), ErrorKind::data, "range 4");
  EXPECT_EQ(num_run, 10);
}

TEST(ThreadPool, ParallelForInsideATaskDoesNotDeadlock) {
  ThreadPool pool(1);
  auto sum = pool.submit([&pool] {
    std::atomic<std::int64_t> total = 0;
    pool.parallel_for(0, 100, 7, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) total += i;
    });
    return total.load();
  });
  EXPECT_EQ(sum.get(), 4950);
}

TEST(ThreadPool, EmptyRangesAndBadSizes) {
  ThreadPool pool(1);
  pool.parallel_for(5, 5, 1, [](std::int64_t, std::int64_t) { FAIL(); });
  EXPECT_WMTP_ERROR(pool.parallel_for(0, 1, 0, [](std::int64_t, std::int64_t) {}),
                    ErrorKind::internal, "grain of 0");
  EXPECT_WMTP_ERROR(ThreadPool(0), ErrorKind::internal, "0 threads");
}

}  // namespace
}  // namespace wmtp
