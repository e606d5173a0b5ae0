#include "wmtp/tracking/sink_queue.h"

#include <utility>

#include "wmtp/core/log.h"
#include "wmtp/core/time.h"

namespace wmtp::tracking {
namespace {

// Points are not worth a wake-up each: that is a system call, the most expensive part of a call.
constexpr std::chrono::milliseconds kLongestWait{50};

// Adds what the caller spent here.
class CallerTime {
 public:
  explicit CallerTime(std::atomic<std::uint64_t>& total) : total_(total) {}
  ~CallerTime() {
    total_ += static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begun_).count());
  }
  CallerTime(const CallerTime&) = delete;
  CallerTime& operator=(const CallerTime&) = delete;

 private:
  std::atomic<std::uint64_t>& total_;
  Clock::time_point begun_ = Clock::now();
};

}  // namespace

SinkQueue::SinkQueue(std::shared_ptr<Sink> behind, std::size_t max_points)
    : behind_(std::move(behind)), max_points_(max_points), thread_([this] { work(); }) {}

SinkQueue::~SinkQueue() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  woken_.notify_all();
  thread_.join();
}

void SinkQueue::put(Item item) {
  const CallerTime time(caller_ns_);
  const std::scoped_lock lock(mutex_);
  items_.push_back(std::move(item));
  ++num_put_;
}

void SinkQueue::take(Point&& point) {
  const CallerTime time(caller_ns_);
  {
    const std::scoped_lock lock(mutex_);
    if (num_points_ < max_points_) {
      items_.emplace_back(std::move(point));
      ++num_put_;
      ++num_points_;
      return;
    }
  }
  if (num_dropped_++ == 0)
    log::warn("tracking",
              "{} points wait to be written (tracking.queue_points): those of step {} and what "
              "follows are dropped until the disk keeps up",
              max_points_, point.step);
}

void SinkQueue::flush() {
  flush_within(std::chrono::hours(24));
}

bool SinkQueue::flush_within(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  const std::uint64_t wanted = num_put_;
  flush_asked_ = true;
  woken_.notify_all();
  return flushed_.wait_for(lock, limit, [&] { return num_flushed_ >= wanted; });
}

void SinkQueue::work() {
  std::vector<Item>
      taken;  // it and items_ keep the memory they have: a caller seldom asks for some
  std::unique_lock lock(mutex_);
  while (true) {
    woken_.wait_for(lock, kLongestWait, [this] { return ending_ || flush_asked_; });
    taken.swap(items_);
    const bool flushes = std::exchange(flush_asked_, false) || ending_;
    const std::uint64_t done = num_put_;
    lock.unlock();
    for (const Item& item : taken) {
      pass_on(item);
      if (!std::holds_alternative<Point>(item)) continue;
      const std::scoped_lock counting(mutex_);
      --num_points_;
    }
    taken.clear();
    if (flushes) behind_->flush();
    lock.lock();
    if (flushes) {
      num_flushed_ = done;
      flushed_.notify_all();
    }
    if (ending_ && items_.empty()) return;
  }
}

void SinkQueue::pass_on(const Item& item) {
  struct Visitor {
    Sink& sink;
    void operator()(const Resumed& resumed) const { sink.resumed(resumed); }
    void operator()(const Point& point) const { sink.point(point); }
    void operator()(const RunEvent& event) const { sink.event(event); }
    void operator()(const Histogram& histogram) const { sink.histogram(histogram); }
    void operator()(const DecodedSample& sample) const { sink.sample(sample); }
    void operator()(const SavedCheckpoint& saved) const { sink.saved(saved); }
    void operator()(const RunSummary& summary) const { sink.finished(summary); }
  };
  std::visit(Visitor{*behind_}, item);
}

}  // namespace wmtp::tracking
