#include "wmtp/s3/parallel.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "support/expect_error.h"

namespace wmtp::s3 {
namespace {

std::shared_ptr<Session> session_of(int concurrency) {
  Options options;
  options.bucket = "my-bucket";
  options.concurrency = concurrency;
  return open_session(options);
}

TEST(Parallel, EachNumberComesOnceAndAllThreadsWork) {
  std::mutex mutex;
  std::multiset<int> numbers;
  std::set<std::thread::id> threads;
  std::atomic<int> num_here = 0;
  for_each_number(session_of(4), 20, nullptr, [&](Bucket&, int number) {
    ++num_here;
    while (num_here < 4) std::this_thread::yield();  // the first four meet here
    const std::lock_guard lock(mutex);
    numbers.insert(number);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(numbers.size(), 20u);
  EXPECT_EQ(std::set<int>(numbers.begin(), numbers.end()).size(), 20u);
  EXPECT_EQ(threads.size(), 4u);
}

TEST(Parallel, TheFirstErrorEndsTheRest) {
  std::atomic<int> num_calls = 0;
  const auto work = [&](Bucket&, int number) {
    ++num_calls;
    if (number == 3) throw Error(ErrorKind::io, "s3", "broken at 3");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  EXPECT_WMTP_ERROR(for_each_number(session_of(2), 1000, nullptr, work), ErrorKind::io,
                    "broken at 3");
  EXPECT_LT(num_calls, 900);
}

TEST(Parallel, ACancelledTransferEndsAndSaysSo) {
  std::atomic<bool> cancelled = false;
  const auto work = [&](Bucket&, int number) {
    if (number == 2) cancelled = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  EXPECT_WMTP_ERROR(for_each_number(session_of(2), 1'000'000, &cancelled, work), ErrorKind::comm,
                    "cancelled");
}

TEST(Session, NumbersOutsideOfTheirBoundsAreRefused) {
  const auto opened = [](Options options) {
    options.bucket = "my-bucket";
    return open_session(options);
  };
  EXPECT_WMTP_ERROR(opened({.part_bytes = 5 * kMebibyte - 1}), ErrorKind::config,
                    "S3 takes 5 MiB to 5 GiB");
  EXPECT_WMTP_ERROR(opened({.part_bytes = 5121 * kMebibyte}), ErrorKind::config,
                    "S3 takes 5 MiB to 5 GiB");
  EXPECT_WMTP_ERROR(opened({.concurrency = 0}), ErrorKind::config, "a concurrency of 0");
  EXPECT_WMTP_ERROR(opened({.retries = -1}), ErrorKind::config, "-1 retries");
}

TEST(Session, ItsTimeFollowsTheServer) {
  const auto session = session_of(1);
  const std::int64_t before = session->now();
  session->follow_server(before + 86400);
  EXPECT_NEAR(static_cast<double>(session->now() - before), 86400, 100);
  EXPECT_NE(session->next_seed(), session->next_seed());
}

}  // namespace
}  // namespace wmtp::s3
