// The thread that sends a run's spool while the run lasts, and for a while after its end.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "wmtp/tracking/mlflow/sender.h"

namespace wmtp::tracking::mlflow {

struct SenderThreadOptions {
  // Empty: there is no server, and all stays in the spool.
  std::function<std::unique_ptr<Remote>(const std::atomic<bool>& cancelled)> connect;
  std::function<void()> finished;  // on the thread, once the server has all of a finished run
  std::chrono::milliseconds linger{1000};  // numbers of so long go into one request
};

// THREADS: any.
class SenderThread {
 public:
  SenderThread(Spool& spool, SenderThreadOptions options);  // BORROWS spool
  ~SenderThread();  // BLOCKS for a moment: what is under way is given up
  SenderThread(const SenderThread&) = delete;
  SenderThread& operator=(const SenderThread&) = delete;

  // BLOCKS until the server has all and the end, or is found out of reach, or `limit` is over. The
  // first one counts. Whether the server has all.
  bool end(const SpooledEnd& end, std::chrono::milliseconds limit);
  const SenderCounters& counters() const { return sender_.counters(); }
  std::string problem() const;

 private:
  void work();
  bool take_end();
  bool is_over(const Sender::Step& step);
  std::chrono::milliseconds wait_after_step(const Sender::Step& step) const;

  Spool& spool_;
  const SenderThreadOptions options_;
  std::atomic<bool> cancelled_ = false;
  Sender sender_;
  mutable std::mutex mutex_;
  std::condition_variable woken_, ended_;
  std::optional<SpooledEnd> end_;
  bool end_is_taken_ = false, stopping_ = false, is_over_ = false, has_all_ = false;
  std::string problem_;
  std::thread thread_;
};

}  // namespace wmtp::tracking::mlflow
