#include "wmtp/s3/parallel.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace wmtp::s3 {
namespace {

constexpr std::chrono::milliseconds kFlagPeriod{50};

// What the threads of one call share. A connection watches one flag: that of the first error, into
// which the caller's is copied.
class NumberedWork {
 public:
  NumberedWork(const std::shared_ptr<Session>& session, int count,
               const std::function<void(Bucket&, int)>& work)
      : session_(session), count_(count), work_(work) {}

  void run_thread() {
    try {
      Bucket bucket(session_, &is_over_);
      while (!is_over_) {
        const int number = ++last_;
        if (number > count_) break;
        work_(bucket, number);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      is_over_ = true;
    }
    const std::lock_guard lock(mutex_);
    ++num_ended_;
    ended_.notify_one();
  }

  void wait_for(std::size_t num_threads, const std::atomic<bool>* cancelled) {
    std::unique_lock lock(mutex_);
    while (num_ended_ < num_threads) {
      ended_.wait_for(lock, kFlagPeriod);
      if (cancelled && *cancelled) is_over_ = true;
    }
  }

  void finish() const {
    if (error_) std::rethrow_exception(error_);
    if (is_over_) throw http::Failure(http::FailureKind::cancelled, "the transfer was cancelled");
  }

 private:
  const std::shared_ptr<Session>& session_;
  const int count_;
  const std::function<void(Bucket&, int)>& work_;
  std::atomic<int> last_ = 0;
  std::atomic<bool> is_over_ = false;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t num_ended_ = 0;
  std::exception_ptr error_;
};

}  // namespace

void for_each_number(const std::shared_ptr<Session>& session, int count,
                     const std::atomic<bool>* cancelled,
                     const std::function<void(Bucket&, int)>& work) {
  NumberedWork shared(session, count, work);
  const auto num_threads =
      static_cast<std::size_t>(std::min(count, session->options().concurrency));
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < num_threads; ++i)
      threads.emplace_back([&shared] { shared.run_thread(); });
    shared.wait_for(num_threads, cancelled);
  }
  shared.finish();
}

}  // namespace wmtp::s3
