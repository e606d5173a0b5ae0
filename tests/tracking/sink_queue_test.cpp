#include "wmtp/tracking/sink_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

namespace wmtp::tracking {
namespace {

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

}  // namespace
}  // namespace wmtp::tracking
