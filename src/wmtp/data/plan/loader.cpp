#include "wmtp/data/plan/loader.h"

#include "wmtp/core/failpoint.h"
#include "wmtp/core/time.h"
#include "wmtp/data/ordered_parallel.h"

namespace wmtp::data {
namespace {

struct Stopped {};

}  // namespace

Loader::Loader(std::unique_ptr<BatchPlanner> planner, LoaderOptions options)
    : planner_(std::move(planner)), options_(std::move(options)) {
  if (!options_.allocator) options_.allocator = heap_allocator();
  if (options_.prefetch_batches == 0) options_.prefetch_batches = 1;
  producer_ = std::thread([this] { produce(); });
}

Loader::~Loader() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  not_full_.notify_all();
  producer_.join();
}

void Loader::produce() {
  try {
    ordered_parallel<MicroBatchPlan>(
        options_.num_threads, [&](MicroBatchPlan& plan) { return planner_->next(plan); },
        [&](const MicroBatchPlan& plan) {
          failpoint::pass("data.batch.made");
          return collate(plan, options_.collate, options_.max_length, options_.allocator);
        },
        [&](HostBatch batch) {
          if (!push(std::move(batch))) throw Stopped{};
        });
  } catch (const Stopped&) {
    // Nobody takes batches any more, which is how a loader ends early.
  } catch (...) {
    std::lock_guard lock(mutex_);
    error_ = std::current_exception();
  }
  std::lock_guard lock(mutex_);
  finished_ = true;
  not_empty_.notify_all();
}

bool Loader::push(HostBatch batch) {
  std::unique_lock lock(mutex_);
  not_full_.wait(lock, [&] { return stopping_ || queue_.size() < options_.prefetch_batches; });
  if (stopping_) return false;
  queue_.push_back(std::move(batch));
  not_empty_.notify_one();
  return true;
}

std::optional<HostBatch> Loader::next() {
  const auto start = Clock::now();
  std::unique_lock lock(mutex_);
  not_empty_.wait(lock, [&] { return finished_ || !queue_.empty(); });
  wait_seconds_ += seconds_since(start);
  if (queue_.empty()) {
    if (error_) std::rethrow_exception(error_);
    return std::nullopt;
  }
  std::optional<HostBatch> batch(std::move(queue_.front()));
  queue_.pop_front();
  lock.unlock();
  not_full_.notify_one();
  return batch;
}

}  // namespace wmtp::data
