// Batches made ahead of their use by a thread of their own.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "wmtp/data/plan/collate.h"
#include "wmtp/data/plan/host_batch.h"
#include "wmtp/data/plan/step_planner.h"

namespace wmtp::data {

struct LoaderOptions {
  CollateOptions collate;
  std::uint32_t max_length = 2048;
  std::size_t prefetch_batches = 4;
  int num_threads = 1;                       // that assemble batches
  std::shared_ptr<HostAllocator> allocator;  // none: the heap
};

// OWNS its threads. THREADS: next() from one thread.
class Loader {
 public:
  Loader(std::unique_ptr<BatchPlanner> planner, LoaderOptions options);
  // Never blocks on a full queue.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // BLOCKS until a batch is ready; nullopt = the end. Throws what the producer ran into.
  std::optional<HostBatch> next();
  double wait_seconds() const { return wait_seconds_; }  // spent inside next(), in all

 private:
  void produce();
  bool push(HostBatch batch);

  std::unique_ptr<BatchPlanner> planner_;
  LoaderOptions options_;
  std::mutex mutex_;
  std::condition_variable not_empty_, not_full_;
  std::deque<HostBatch> queue_;
  std::exception_ptr error_;
  bool finished_ = false, stopping_ = false;
  double wait_seconds_ = 0;
  std::thread producer_;
};

}  // namespace wmtp::data
