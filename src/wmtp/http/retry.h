// Another try, where that makes sense: which answers and failures are worth one, when, and how
// often.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "wmtp/core/rng.h"
#include "wmtp/core/time.h"
#include "wmtp/http/client.h"

namespace wmtp::http {

// 408, 429, 500, 502, 503, 504; with `every_5xx` all from 500 to 599.
bool is_worth_retry(int status, bool every_5xx = false);
// No connection, time-outs and resets; not TLS, sizes, malformed answers, cancellations.
bool is_worth_retry(FailureKind failure);

// How long the server wants to be left alone. A date counts from the answer's own Date: clocks of
// two machines are not compared. Nothing: no Retry-After, one without sense, or in the past.
std::optional<std::chrono::seconds> retry_after(const Headers& headers);

struct RetryPolicy {
  int max_tries = 8;                                 // the first one included
  std::chrono::milliseconds base{500};               // the longest wait after the first try
  std::chrono::milliseconds longest{20'000};         // the longest wait at all
  std::chrono::milliseconds longest_asked{120'000};  // a server that asks for more ends the tries
  std::chrono::milliseconds deadline{0};             // from the first try on; 0: none
  bool every_5xx = false;
  std::uint64_t seed = 0;  // of the waits; different for each thread, that they do not meet
};

// Exponential, with full jitter: the n-th wait is uniform between 0 and base * 2^(n-1), at most
// `longest`.
class Backoff {
 public:
  explicit Backoff(const RetryPolicy& policy);
  std::chrono::milliseconds next();

 private:
  std::chrono::milliseconds bound_, longest_;
  RngStream rng_;
};

// Where time comes from; tests hand in their own.
struct RetryClock {
  std::function<Clock::time_point()> now;
  // BLOCKS for so long, at most 0.1 s longer than until `cancelled` is set.
  std::function<void(std::chrono::milliseconds, const std::atomic<bool>* cancelled)> sleep;
};
RetryClock real_clock();

// BLOCKS. Calls `attempt` until it brings an answer or a failure that is not worth another try, or
// until tries or time are used up; returns the last answer, or throws the last failure with the
// number of tries. A wait that would end behind the deadline is not begun. Cancelled in a wait:
// Failure cancelled. `what` names the request in the log, without secrets.
Response with_retries(const std::function<Response()>& attempt, std::string_view what,
                      const RetryPolicy& policy, const std::atomic<bool>* cancelled = nullptr,
                      const RetryClock& clock = real_clock());

// The same for one request that stays as it is.
Response send_with_retries(Client& client, const Request& request, const RetryPolicy& policy,
                           const RetryClock& clock = real_clock());

}  // namespace wmtp::http
