#include "wmtp/core/thread_pool.h"

#include <algorithm>
#include <exception>

#include "wmtp/core/error.h"

namespace wmtp {
namespace {

// One parallel_for. Helpers that start after the last range was taken touch nothing but the
// counters.
struct Loop {
  std::int64_t begin, end, grain, num_ranges;
  const std::function<void(std::int64_t, std::int64_t)>* body;

  std::mutex mutex;
  std::condition_variable all_done;
  std::int64_t next_range = 0, num_done = 0;
  std::int64_t failed_range = -1;
  std::exception_ptr failure;

  void work() {
    std::unique_lock lock(mutex);
    while (next_range < num_ranges) {
      const std::int64_t range = next_range++;
      lock.unlock();
      std::exception_ptr thrown = run(range);
      lock.lock();
      if (thrown && (failed_range < 0 || range < failed_range)) {
        failed_range = range;
        failure = thrown;
      }
      if (++num_done == num_ranges) all_done.notify_all();
    }
  }

  std::exception_ptr run(std::int64_t range) const {
    const std::int64_t first = begin + range * grain;
    try {
      (*body)(first, first + std::min(grain, end - first));
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }
};

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  WMTP_CHECK(num_threads >= 1, "a thread pool of " + std::to_string(num_threads) + " threads");
  threads_.reserve(static_cast<std::size_t>(num_threads));
  try {
    for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { run_tasks(); });
  } catch (...) {  // no more threads to be had: those that run must not be destroyed
    close();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  close();
}

void ThreadPool::close() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::enqueue(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void ThreadPool::run_tasks() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what the task holds is released before the lock is taken again
    lock.lock();
  }
}

void ThreadPool::parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t)>& body) {
  WMTP_CHECK(grain >= 1, "parallel_for with a grain of " + std::to_string(grain));
  if (begin >= end) return;
  const std::int64_t num_ranges = (end - begin - 1) / grain + 1;
  auto loop = std::make_shared<Loop>();
  loop->begin = begin;
  loop->end = end;
  loop->grain = grain;
  loop->num_ranges = num_ranges;
  loop->body = &body;
  const std::int64_t num_helpers = std::min<std::int64_t>(num_threads(), num_ranges - 1);
  for (std::int64_t i = 0; i < num_helpers; ++i) enqueue([loop] { loop->work(); });
  loop->work();
  std::unique_lock lock(loop->mutex);
  loop->all_done.wait(lock, [&] { return loop->num_done == num_ranges; });
  if (loop->failure) std::rethrow_exception(loop->failure);
}

}  // namespace wmtp
