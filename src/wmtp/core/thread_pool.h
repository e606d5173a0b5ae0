// A fixed number of threads with one queue. No exception leaves a thread: it is kept and thrown
// again where the result is awaited.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace wmtp {

// THREADS: every member may be called from any thread, also from a task of this pool.
class ThreadPool {
 public:
  // REQUIRES num_threads >= 1.
  explicit ThreadPool(int num_threads);
  // BLOCKS until every task submitted so far has run.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(threads_.size()); }

  // Runs `task` on a thread of the pool; tasks start in the order of their submission. The future's
  // get() returns the result or throws what the task threw; dropping the future does not wait.
  template <class Task>
  auto submit(Task&& task) -> std::future<std::invoke_result_t<std::decay_t<Task>>> {
    using Result = std::invoke_result_t<std::decay_t<Task>>;
    // std::function wants a copyable target, a packaged_task is none: hence the shared pointer.
    auto packaged = std::make_shared<std::packaged_task<Result()>>(std::forward<Task>(task));
    auto future = packaged->get_future();
    enqueue([packaged] { (*packaged)(); });
    return future;
  }

 private:
  void enqueue(std::function<void()> task);
  void close();  // BLOCKS until what was enqueued is done
  void run_tasks();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace wmtp
