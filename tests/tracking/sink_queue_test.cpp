#include "wmtp/tracking/sink_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <iostream>
#include <thread>

#include "wmtp/core/time.h"

namespace wmtp::tracking {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

// A disk that hangs until it is let go.
class HangingSink : public Sink {
 public:
  void point(const Point& point) override {
    started_.set_value();
    released_.wait();
    steps.push_back(point.step);
    started_ = {};
  }

  void wait_for_first() { started_.get_future().wait(); }
  void release() { release_.set_value(); }

  std::vector<std::int64_t> steps;

 private:
  std::promise<void> started_, release_;
  std::shared_future<void> released_ = release_.get_future().share();
};

TEST(SinkQueue, PointsBeyondTheLimitAreDropped) {
  const auto behind = std::make_shared<HangingSink>();
  SinkQueue queue(behind, 3);
  queue.point({.step = 1});
  behind->wait_for_first();
  for (std::int64_t step = 2; step <= 6; ++step) queue.point({.step = step});
  EXPECT_EQ(queue.num_dropped(), 3);  // the one that is being written waits too
  behind->release();
  queue.flush();
  EXPECT_THAT(behind->steps, ::testing::ElementsAre(1, 2, 3));
  queue.point({.step = 7});
  queue.flush();
  EXPECT_THAT(behind->steps, ::testing::ElementsAre(1, 2, 3, 7));
}

// Remembers what it was told, and takes its time where it is asked to.
struct Recording : Sink {
  std::mutex mutex;
  std::vector<std::string> told;
  milliseconds pause{0};

  void add(const std::string& what) {
    std::this_thread::sleep_for(pause);
    const std::scoped_lock lock(mutex);
    told.push_back(what);
  }
  void resumed(const Resumed& resumed) override { add("resumed " + std::to_string(resumed.step)); }
  void point(const Point& point) override { add("point " + std::to_string(point.step)); }
  void event(const RunEvent& event) override { add(event.kind); }
  void saved(const SavedCheckpoint& saved) override { add("saved " + std::to_string(saved.step)); }
  void finished(const RunSummary& summary) override { add("finished " + summary.status); }
  void flush() override { add("flush"); }
  std::vector<std::string> all() {
    const std::scoped_lock lock(mutex);
    return told;
  }
};

TEST(SinkQueue, KeepsTheOrderAndAFlushWaitsForAllBefore) {
  const auto behind = std::make_shared<Recording>();
  behind->pause = milliseconds(2);
  SinkQueue queue(behind, 100);
  queue.resumed({.step = 4});
  queue.point({5, 0, {}});
  queue.saved({.step = 5});
  queue.event({.step = 5, .kind = "loss_spike"});
  queue.point({6, 0, {}});
  queue.finished({});
  queue.flush();
  EXPECT_THAT(behind->all(), ElementsAre("resumed 4", "point 5", "saved 5", "loss_spike", "point 6",
                                         "finished completed", "flush"));
}

TEST(SinkQueue, AFlushThatTakesTooLongIsSaidSo) {
  const auto behind = std::make_shared<Recording>();
  behind->pause = milliseconds(300);
  SinkQueue queue(behind, 100);
  queue.point({1, 0, {}});
  EXPECT_FALSE(queue.flush_within(milliseconds(20)));
  EXPECT_TRUE(queue.flush_within(milliseconds(60'000)));
}

TEST(SinkQueue, IsDestroyedOnlyWhenASlowSinkHasAll) {
  const auto behind = std::make_shared<Recording>();
  behind->pause = milliseconds(5);
  {
    SinkQueue queue(behind, 100);
    for (int step = 1; step <= 20; ++step) queue.point({step, 0, {}});
  }
  const auto told = behind->all();
  ASSERT_GE(told.size(), 21);
  EXPECT_EQ(told[19], "point 20");
  EXPECT_EQ(told.back(), "flush");
}

TEST(SinkQueue, CostsTheCallerMicroseconds) {
  SinkQueue queue(std::make_shared<Recording>(), 1 << 20);
  Point point{1, 0, {}};
  for (int key = 0; key < 20; ++key)
    point.values.emplace_back("train/metric_" + std::to_string(key), 1);
  std::vector<double> us;
  for (int i = 0; i < 20'000; ++i) {
    const auto begun = Clock::now();
    queue.point(point);
    us.push_back(1e6 * seconds_since(begun));
  }
  std::sort(us.begin(), us.end());
  std::cout << "a point of 20 values: p50 " << us[us.size() / 2] << " us, p99 "
            << us[us.size() * 99 / 100] << " us, max " << us.back() << " us\n";
  EXPECT_LT(us[us.size() / 2], 100);  // whatever else the machine does; the soak test is strict
}

}  // namespace
}  // namespace wmtp::tracking
