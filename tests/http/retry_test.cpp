#include "wmtp/http/retry.h"

#include <gtest/gtest.h>

#include <deque>
#include <thread>
#include <variant>

#include "support/expect_error.h"

namespace wmtp::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A server that does as it is told, and a clock that moves by waiting only.
class Retries : public testing::Test {
 protected:
  Response run() {
    RetryClock clock;
    clock.now = [this] { return now; };
    clock.sleep = [this](milliseconds duration, const std::atomic<bool>*) {
      waits.push_back(duration);
      now += duration;
      if (waits.size() == cancel_in_wait) cancelled = true;
    };
    return with_retries([this] { return attempt(); }, "GET http://h/", policy, &cancelled, clock);
  }
  Response attempt() {
    ++tries;
    now += try_lasts;
    if (answers.empty()) return {200, {}, "done"};
    const auto answer = answers.front();
    answers.pop_front();
    if (const auto* kind = std::get_if<FailureKind>(&answer))
      throw Failure(*kind, "GET http://h/: broke", "a hint");
    return std::get<Response>(answer);
  }
  void fail(int times, std::variant<FailureKind, Response> how) {
    for (int i = 0; i < times; ++i) answers.push_back(how);
  }
  milliseconds waited() const {
    milliseconds sum{0};
    for (const milliseconds wait : waits) sum += wait;
    return sum;
  }

  RetryPolicy policy;
  std::deque<std::variant<FailureKind, Response>> answers;
  Clock::time_point now = Clock::time_point() + seconds(1000);
  milliseconds try_lasts{0};
  std::vector<milliseconds> waits;
  std::atomic<bool> cancelled = false;
  std::size_t cancel_in_wait = 0;
  int tries = 0;
};

TEST_F(Retries, AGoodAnswerIsTakenAtOnce) {
  EXPECT_EQ(run().body, "done");
  EXPECT_EQ(tries, 1);
  EXPECT_TRUE(waits.empty());
}

TEST_F(Retries, StatusesOfTroubleAreTriedAgain) {
  for (const int status : {408, 429, 500, 502, 503, 504}) {
    EXPECT_TRUE(is_worth_retry(status)) << status;
    fail(1, Response{status, {}, ""});
  }
  EXPECT_EQ(run().status, 200);
  EXPECT_EQ(tries, 7);
}

TEST_F(Retries, StatusesOfRefusalAreNot) {
  for (const int status : {200, 206, 301, 307, 400, 401, 403, 404, 409, 412, 416, 501, 505, 600}) {
    EXPECT_FALSE(is_worth_retry(status)) << status;
    tries = 0;
    fail(1, Response{status, {}, ""});
    EXPECT_EQ(run().status, status);
    EXPECT_EQ(tries, 1);
  }
  EXPECT_TRUE(is_worth_retry(501, true));
  EXPECT_TRUE(is_worth_retry(599, true));
  EXPECT_FALSE(is_worth_retry(600, true));
  EXPECT_FALSE(is_worth_retry(404, true));
}

TEST_F(Retries, FailuresOfTheWayAreTriedAgainOthersAreNot) {
  fail(1, FailureKind::connect);
  fail(1, FailureKind::timeout);
  fail(1, FailureKind::reset);
  EXPECT_EQ(run().status, 200);
  EXPECT_EQ(tries, 4);
  for (const FailureKind kind :
       {FailureKind::tls, FailureKind::too_large, FailureKind::malformed, FailureKind::cancelled}) {
    tries = 0;
    fail(1, kind);
    EXPECT_THROW(run(), Failure);
    EXPECT_EQ(tries, 1) << name_of(kind);
  }
}

TEST_F(Retries, TheLastAnswerIsReturnedWhenTriesAreUsedUp) {
  policy.max_tries = 3;
  fail(9, Response{503, {}, "busy"});
  EXPECT_EQ(run().body, "busy");
  EXPECT_EQ(tries, 3);
  EXPECT_EQ(waits.size(), 2u);
}

TEST_F(Retries, TheLastFailureSaysHowOftenItWasTried) {
  policy.max_tries = 3;
  fail(9, FailureKind::reset);
  try {
    run();
    ADD_FAILURE();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.failure(), FailureKind::reset);
    EXPECT_THAT(failure.what(), testing::HasSubstr("broke (3 tries in "));
    EXPECT_EQ(failure.hint(), "a hint");
  }
}

TEST_F(Retries, WaitsGrowAndAreJitteredWithinTheirBounds) {
  policy.max_tries = 2000;
  policy.base = milliseconds(100);
  policy.longest = milliseconds(1000);
  fail(1999, Response{500, {}, ""});
  run();
  milliseconds bound(100);
  for (std::size_t i = 0; i < 6; ++i, bound = std::min(2 * bound, policy.longest))
    EXPECT_LE(waits[i], bound);
  // Uniform between 0 and 1000: a mean of 500, to five standard deviations.
  EXPECT_NEAR(static_cast<double>(waited().count()) / 1999, 500, 33);
  EXPECT_LT(std::ranges::min(waits), milliseconds(10));
  EXPECT_GT(std::ranges::max(waits), milliseconds(990));
}

TEST_F(Retries, WaitsFollowFromTheSeed) {
  const auto waits_of = [&](std::uint64_t seed) {
    policy.seed = seed;
    waits.clear();
    fail(5, Response{500, {}, ""});
    run();
    return waits;
  };
  const auto first = waits_of(1);
  EXPECT_EQ(first, waits_of(1));
  EXPECT_NE(first, waits_of(2));
}

TEST_F(Retries, RetryAfterIsALowerBound) {
  fail(1, Response{503, {{"Retry-After", "7"}}, ""});
  run();
  EXPECT_EQ(waits.at(0), seconds(7));
  waits.clear();
  fail(1, Response{503,
                   {{"retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"},
                    {"Date", "Sun, 06 Nov 1994 08:49:37 GMT"}},
                   ""});
  run();
  EXPECT_EQ(waits.at(0), seconds(30));
}

TEST_F(Retries, AnAskedWaitThatIsTooLongEndsTheTries) {
  fail(9, Response{503, {{"Retry-After", "121"}}, ""});
  EXPECT_EQ(run().status, 503);
  EXPECT_EQ(tries, 1);
  EXPECT_TRUE(waits.empty());
}

TEST_F(Retries, RetryAfterWithoutSenseCountsAsNone) {
  EXPECT_EQ(retry_after({}), std::nullopt);
  for (const char* text :
       {"", "-1", "1.5", "soon", "Sun, 06 Nov 1994 08:50:07 GMT"})  // the last: no Date
    EXPECT_EQ(retry_after({{"Retry-After", text}}), std::nullopt) << text;
  EXPECT_EQ(retry_after({{"Retry-After", "Sun, 06 Nov 1994 08:49:00 GMT"},
                         {"Date", "Sun, 06 Nov 1994 08:49:37 GMT"}}),
            std::nullopt);
  EXPECT_EQ(retry_after({{"Retry-After", "0"}}), seconds(0));
  EXPECT_GT(retry_after({{"Retry-After", "18446744073709551615"}}), seconds(1'000'000));
}

TEST_F(Retries, AWaitThatWouldPassTheDeadlineIsNotBegun) {
  policy.deadline = seconds(60);
  policy.max_tries = 1000;
  try_lasts = milliseconds(500);
  fail(1000, Response{503, {{"Retry-After", "10"}}, ""});
  const auto start = now;
  EXPECT_EQ(run().status, 503);
  EXPECT_LE(now - start, seconds(60));
  EXPECT_GE(now - start, seconds(45));
  EXPECT_GE(tries, 4);
}

TEST_F(Retries, ACancelledWaitIsAFailure) {
  cancel_in_wait = 2;
  fail(9, FailureKind::reset);
  try {
    run();
    ADD_FAILURE();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.failure(), FailureKind::cancelled);
    EXPECT_EQ(tries, 2);
  }
}

TEST_F(Retries, OtherErrorsPassThrough) {
  EXPECT_WMTP_ERROR(
      with_retries([]() -> Response { throw Error(ErrorKind::io, "x", "gone"); }, "x", policy),
      ErrorKind::io, "gone");
}

TEST(RealClock, SleepEndsSoonAfterCancellation) {
  std::atomic<bool> cancelled = false;
  const std::jthread other([&] {
    std::this_thread::sleep_for(milliseconds(100));
    cancelled = true;
  });
  const auto start = Clock::now();
  real_clock().sleep(seconds(30), &cancelled);
  EXPECT_LT(seconds_since(start), 5);
}

}  // namespace
}  // namespace wmtp::http
