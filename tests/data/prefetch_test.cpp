// The prefetch thread: errors in their order, an end at any time, and no more memory than the queue
// allows.
#include <gtest/gtest.h>

#include <atomic>

#include "data/planned_batches.h"
#include "support/expect_error.h"

namespace wmtp::data {
namespace {

using test::CorpusFixture;
using test::run_of;

class BrokenPlanner : public BatchPlanner {
 public:
  explicit BrokenPlanner(std::shared_ptr<const Dataset> dataset)
      : inner_(std::move(dataset), run_of(1, 0, 1)) {}
  bool next(MicroBatchPlan& plan) override {
    if (++count_ == 3) throw Error(ErrorKind::data, "data", "broken on purpose");
    return inner_.next(plan);
  }

 private:
  TrainPlanner inner_;
  int count_ = 0;
};

TEST(Prefetch, ErrorsAreParkedAndRethrownInOrder) {
  const CorpusFixture fixture;
  Loader loader(std::make_unique<BrokenPlanner>(fixture.dataset()), {});
  EXPECT_TRUE(loader.next());
  EXPECT_TRUE(loader.next());
  EXPECT_WMTP_ERROR(loader.next(), ErrorKind::data, "broken on purpose");
  EXPECT_WMTP_ERROR(loader.next(), ErrorKind::data, "broken on purpose");
}

TEST(Prefetch, ShutdownNeverBlocksOnAFullQueue) {
  const CorpusFixture fixture;
  for (int threads : {1, 3}) {
    LoaderOptions options;
    options.prefetch_batches = 2;
    options.num_threads = threads;
    Loader loader(std::make_unique<TrainPlanner>(fixture.dataset(), run_of(1, 0, 1)), options);
    EXPECT_TRUE(loader.next());
  }
}

class CountingAllocator : public HostAllocator {
 public:
  std::atomic<std::int64_t> live{0}, most{0};
  std::byte* allocate(std::size_t bytes) override {
    const std::int64_t now = ++live;
    if (now > most) most = now;
    return inner->allocate(bytes);
  }
  void release(std::byte* memory, std::size_t bytes) override {
    --live;
    inner->release(memory, bytes);
  }
  std::shared_ptr<HostAllocator> inner = heap_allocator();
};

TEST(Prefetch, NeverHoldsMoreThanTheQueueAllows) {
  const CorpusFixture fixture;
  auto allocator = std::make_shared<CountingAllocator>();
  {
    LoaderOptions options;
    options.prefetch_batches = 3;
    options.allocator = allocator;
    Loader loader(std::make_unique<TrainPlanner>(fixture.dataset(), run_of(1, 0, 1)), options);
    while (loader.next()) {
    }
    EXPECT_LE(allocator->most, 3 + 2);
  }
  EXPECT_EQ(allocator->live, 0);
}

}  // namespace
}  // namespace wmtp::data
