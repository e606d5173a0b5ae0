// The lock is held while a reading is added or taken, never while one is made: `read` may wait for
// a driver or a disk, and take() is called between training steps. The thread has its own share of
// the state, so that it may outlive the sampler when such a wait does not end.
#include "wmtp/tracking/system/system_sampler.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "wmtp/core/log.h"

namespace wmtp::tracking {
namespace {

constexpr double kLongestInterval_s = 1e6;  // far more would overflow the clock's nanoseconds
constexpr auto kLongestEnd = std::chrono::seconds(2);

struct ReadingSums {
  std::array<double, kNumSystemValues> sum{}, max{};
  std::array<int, kNumSystemValues> count{};
  bool any = false;

  void add(const SystemReading& reading) {
    any = true;
    for (std::size_t k = 0; k < kNumSystemValues; ++k) {
      const double value = reading[static_cast<SystemValue>(k)];
      if (is_absent(value)) continue;
      sum[k] += value;
      max[k] = count[k] == 0 ? value : std::max(max[k], value);
      ++count[k];
    }
  }

  SystemSummary summary() const {
    SystemSummary found;
    for (std::size_t k = 0; k < kNumSystemValues; ++k) {
      if (count[k] == 0) continue;
      found.max[static_cast<SystemValue>(k)] = max[k];
      // The mean of equal values may come out a rounding above them.
      found.mean[static_cast<SystemValue>(k)] = std::min(sum[k] / count[k], max[k]);
    }
    return found;
  }
};

}  // namespace

struct SystemSampler::State {
  Read read;
  std::chrono::duration<double> interval{};
  bool warned = false;  // the thread's

  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false, ended = false;
  ReadingSums sums;
  SystemReading last;

  SystemReading make_reading() {
    SystemReading reading;
    try {
      read(reading);
    } catch (const std::exception& thrown) {
      if (!std::exchange(warned, true))
        log::warn("system", "numbers of the machine are left out: {}", thrown.what());
    }
    return reading;
  }

  void work() {
    std::unique_lock lock(mutex);
    while (!stopping) {
      lock.unlock();
      const SystemReading reading = make_reading();
      lock.lock();
      last = reading;
      sums.add(reading);
      changed.wait_for(lock, interval, [this] { return stopping; });
    }
    ended = true;
    changed.notify_all();
  }
};

SystemSampler::SystemSampler(Read read, double interval_s) : state_(std::make_shared<State>()) {
  state_->read = std::move(read);
  state_->interval = std::chrono::duration<double>(std::min(interval_s, kLongestInterval_s));
  try {
    thread_ = std::thread([state = state_] { state->work(); });
  } catch (const std::exception& thrown) {
    log::warn("system", "numbers of the machine are left out: no thread for them: {}",
              thrown.what());
  }
}

SystemSampler::~SystemSampler() {
  if (!thread_.joinable()) return;
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  const bool ended = state_->changed.wait_for(lock, kLongestEnd, [this] { return state_->ended; });
  lock.unlock();
  if (ended) {
    thread_.join();
    return;
  }
  log::warn("system", "a reading of the machine does not end; the run goes on without it");
  thread_.detach();
}

SystemSummary SystemSampler::take() {
  const std::scoped_lock lock(state_->mutex);
  ReadingSums sums = std::exchange(state_->sums, {});
  const bool fresh = sums.any;
  if (!fresh) sums.add(state_->last);
  SystemSummary summary = sums.summary();
  summary.fresh = fresh;
  return summary;
}

}  // namespace wmtp::tracking
