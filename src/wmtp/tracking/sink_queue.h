// The thread that writes what a run tells. Whoever tells something goes on at once; files and
// servers, however slow, cost the training thread a copy and a lock.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "wmtp/tracking/sink.h"

namespace wmtp::tracking {

// THREADS: any. Passes on what is kept: resumed, point, event, histogram, sample, saved, finished,
// in their order. Where what is behind does not keep up (a disk that hangs), at most `max_points`
// points wait in memory; those beyond are dropped, with a warning.
class SinkQueue : public Sink {
 public:
  SinkQueue(std::shared_ptr<Sink> behind, std::size_t max_points);
  ~SinkQueue() override;  // BLOCKS until all is passed on
  SinkQueue(const SinkQueue&) = delete;
  SinkQueue& operator=(const SinkQueue&) = delete;

  void resumed(const Resumed& resumed) override { put(resumed); }
  void point(const Point& point) override { take(Point(point)); }
  void take(Point&& point);  // the same without a copy
  void event(const RunEvent& event) override { put(event); }
  void histogram(const Histogram& histogram) override { put(histogram); }
  void sample(const DecodedSample& sample) override { put(sample); }
  void saved(const SavedCheckpoint& saved) override { put(saved); }
  void finished(const RunSummary& summary) override { put(summary); }
  void flush() override;
  // Whether all that was told is flushed within that time.
  bool flush_within(std::chrono::milliseconds limit);

  std::uint64_t num_dropped() const { return num_dropped_; }
  double caller_s() const { return 1e-9 * static_cast<double>(caller_ns_); }  // in calls that tell

 private:
  using Item =
      std::variant<Resumed, Point, RunEvent, Histogram, DecodedSample, SavedCheckpoint, RunSummary>;
  void put(Item item);
  void work();
  void pass_on(const Item& item);

  const std::shared_ptr<Sink> behind_;
  const std::size_t max_points_;
  std::atomic<std::uint64_t> num_dropped_ = 0, caller_ns_ = 0;
  std::mutex mutex_;
  std::condition_variable woken_, flushed_;
  std::vector<Item> items_;
  std::size_t num_points_ = 0;  // among items_
  std::uint64_t num_put_ = 0, num_flushed_ = 0;
  bool flush_asked_ = false, ending_ = false;
  std::thread thread_;
};

}  // namespace wmtp::tracking
