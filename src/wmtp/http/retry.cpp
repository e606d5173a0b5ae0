#include "wmtp/http/retry.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "wmtp/core/log.h"
#include "wmtp/http/http_date.h"

namespace wmtp::http {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSleepStep{50};

void sleep_unless(milliseconds duration, const std::atomic<bool>* cancelled) {
  const Clock::time_point end = Clock::now() + duration;
  while (!(cancelled && *cancelled)) {
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    if (left <= milliseconds(0)) return;
    std::this_thread::sleep_for(cancelled ? std::min(left, kSleepStep) : left);
  }
}

// What one try brought: an answer, or why there is none.
struct Outcome {
  std::optional<Response> response;
  std::optional<Failure> failure;

  bool is_worth_retry(const RetryPolicy& policy) const {
    return failure ? http::is_worth_retry(failure->failure())
                   : http::is_worth_retry(response->status, policy.every_5xx);
  }
  std::string text() const {
    return failure ? failure->fact()
                   : fmt::format("the answer has the status {}", response->status);
  }
};

Outcome try_once(const std::function<Response()>& attempt) {
  try {
    return {attempt(), std::nullopt};
  } catch (const Failure& failure) {
    return {std::nullopt, failure};
  }
}

Response last_word(Outcome outcome, int tries, double seconds) {
  if (!outcome.failure) return std::move(*outcome.response);
  if (tries == 1) throw *outcome.failure;
  throw outcome.failure->with_note(
      fmt::format(" ({} tries in {})", tries, format_duration(seconds)));
}

// Nothing: the server wants to be left alone for longer than anyone here waits.
std::optional<milliseconds> next_wait(const Outcome& outcome, const RetryPolicy& policy,
                                      Backoff& backoff) {
  const milliseconds own = backoff.next();
  const auto asked = outcome.response ? retry_after(outcome.response->headers) : std::nullopt;
  if (!asked) return own;
  if (*asked > policy.longest_asked) return std::nullopt;
  return std::max<milliseconds>(own, *asked);
}

}  // namespace

bool is_worth_retry(int status, bool every_5xx) {
  switch (status) {
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      return true;
    default:
      return every_5xx && status >= 500 && status <= 599;
  }
}

bool is_worth_retry(FailureKind failure) {
  return failure == FailureKind::connect || failure == FailureKind::timeout ||
         failure == FailureKind::reset;
}

std::optional<std::chrono::seconds> retry_after(const Headers& headers) {
  const auto text = headers.find("Retry-After");
  if (!text) return std::nullopt;
  constexpr unsigned long long kMostSeconds = 100ull * 365 * 24 * 3600;
  if (const auto seconds = parse_decimal(*text))
    return std::chrono::seconds(static_cast<std::int64_t>(std::min(*seconds, kMostSeconds)));
  const auto then = parse_http_date(*text);
  const auto date = headers.find("Date");
  const auto now = date ? parse_http_date(*date) : std::nullopt;
  if (!then || !now || *then <= *now) return std::nullopt;
  return std::chrono::seconds(*then - *now);
}

Backoff::Backoff(const RetryPolicy& policy)
    : bound_(std::min(policy.base, policy.longest)),
      longest_(policy.longest),
      rng_(policy.seed, "http/retry") {}

milliseconds Backoff::next() {
  const double part = unit_uniform(rng_.next()[0]);
  const milliseconds wait(
      static_cast<std::int64_t>(part * static_cast<double>(bound_.count() + 1)));
  bound_ = bound_ > longest_ / 2 ? longest_ : bound_ * 2;
  return wait;
}

RetryClock real_clock() {
  return {[] { return Clock::now(); }, sleep_unless};
}

Response with_retries(const std::function<Response()>& attempt, std::string_view what,
                      const RetryPolicy& policy, const std::atomic<bool>* cancelled,
                      const RetryClock& clock) {
  const Clock::time_point start = clock.now();
  const auto seconds_so_far = [&] {
    return std::chrono::duration<double>(clock.now() - start).count();
  };
  Backoff backoff(policy);
  for (int tries = 1;; ++tries) {
    Outcome outcome = try_once(attempt);
    if (!outcome.is_worth_retry(policy) || tries >= policy.max_tries)
      return last_word(std::move(outcome), tries, seconds_so_far());
    const auto wait = next_wait(outcome, policy, backoff);
    const bool is_late =
        wait && policy.deadline > milliseconds(0) && clock.now() - start + *wait >= policy.deadline;
    if (!wait || is_late) return last_word(std::move(outcome), tries, seconds_so_far());
    log::debug("http", "{}: {}; try {} of {} follows in {}", what, outcome.text(), tries + 1,
               policy.max_tries, format_duration(static_cast<double>(wait->count()) / 1000));
    clock.sleep(*wait, cancelled);
    if (cancelled && *cancelled)
      throw Failure(FailureKind::cancelled,
                    fmt::format("{}: cancelled after {} tries", what, tries));
  }
}

Response send_with_retries(Client& client, const Request& request, const RetryPolicy& policy,
                           const RetryClock& clock) {
  return with_retries([&] { return client.send(request); }, shown(request), policy,
                      request.cancelled, clock);
}

}  // namespace wmtp::http
