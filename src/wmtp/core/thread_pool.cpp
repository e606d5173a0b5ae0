#include "wmtp/core/thread_pool.h"

#include <string>

#include "wmtp/core/error.h"

namespace wmtp {
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

}  // namespace wmtp
