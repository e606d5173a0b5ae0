// Tells a tracking server how a run ended, once its exit code is known: ranks agree on it after all
// else, and a watchdog decides it while the run's own thread hangs.
#pragma once
#include <memory>
#include <mutex>
#include <string>

#include "wmtp/run/report/run_sinks.h"

namespace wmtp::run {

// THREADS: any.
class ExitTeller {
 public:
  void attach(const RunSinks& sinks);  // keeps them alive
  // BLOCKS for a few seconds at most; only the first call does anything. What is not sent by then
  // stays in the spool.
  void tell(int exit_code, const std::string& reason);

 private:
  std::mutex mutex_;
  std::shared_ptr<tracking::SinkQueue> kept_;
  std::shared_ptr<tracking::mlflow::MlflowSink> mlflow_;
};

}  // namespace wmtp::run
