// Sends what runs have left in their spools: after an outage that outlasted them, or a kill.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "wmtp/http/ca_bundle.h"

namespace wmtp::tracking::mlflow {

class Remote;

struct SyncOptions {
  std::filesystem::path spool_dir;  // of all runs
  std::string tracking_uri;         // empty: MLFLOW_TRACKING_URI, or that which the run was told
  std::chrono::milliseconds limit{600'000};  // for all of them together
  http::Environment env;
  // Makes the way to the server at `uri`. Tests hand in their own.
  std::function<std::unique_ptr<Remote>(const std::string& uri, const std::atomic<bool>& cancelled)>
      connect = {};
};

struct SyncedRun {
  std::string run_uid, run_id;  // the latter is MLflow's, empty where there is none yet
  bool is_live = false;         // a process still writes it, and sends it itself: left alone
  std::uint64_t sent = 0, rejected = 0;  // values
  std::uint64_t left = 0;                // records
  std::string problem;                   // why something is left, for people; empty: nothing is
};

// BLOCKS. The runs in the order of their names. A run that did not say how it ended was killed, and
// gets that status. Error io where `spool_dir` cannot be read; what is wrong with one run is in its
// `problem`.
std::vector<SyncedRun> sync(const SyncOptions& options);

}  // namespace wmtp::tracking::mlflow
