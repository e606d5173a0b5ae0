// A run as MLflow has it. All that is told goes to a spool on the disk first; a thread of its own
// sends it from there, so a server that is slow or gone costs training nothing.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wmtp/core/json.h"
#include "wmtp/http/ca_bundle.h"
#include "wmtp/tracking/mlflow/rest/server.h"
#include "wmtp/tracking/sink.h"

namespace wmtp::tracking::mlflow {

class Remote;

struct Artifact {
  std::string name;  // below the run's artifacts: "config.yaml", "final/model.safetensors"
  std::filesystem::path path;
};

struct MlflowOptions {
  std::string tracking_uri;  // empty: MLFLOW_TRACKING_URI of `env`; none there: spool only
  std::string experiment, run_name;
  std::filesystem::path spool_dir;  // of all runs; this run's part is <spool_dir>/<run_uid>
  std::string run_uid;              // of the run, the same after each resume; [0-9a-zA-Z_-]+
  std::int64_t from_step = 0;       // 0: a new run, otherwise the step that it goes on from
  // What leaves the machine: the caller chooses what that may be.
  std::vector<KeyValue> params, tags;
  OrderedJson inputs;               // {"datasets": [..], "models": [..]}, or null
  std::vector<Artifact> artifacts;  // of the start
  std::string sync_command;         // what a user types to send the rest; for messages
  http::Environment env;
  // Makes the way to the server, on the sending thread. Tests hand in their own.
  std::function<std::unique_ptr<Remote>(const std::atomic<bool>& cancelled)> connect = {};
};

// How a run ended.
struct RunEnd {
  RunStatus status = RunStatus::finished;
  int exit_code = 0;
  std::string reason;  // "completed", "preempted", the fact of an error
};

// Values, not points: a point of five names counts five.
struct MlflowCounters {
  std::uint64_t appended = 0;  // to the spool, by this process
  std::uint64_t sent = 0;      // taken by the server, by this process
  std::uint64_t repeated = 0;  // told again after a resume, and left out
  std::uint64_t dropped = 0;   // the spool could not be written
  std::uint64_t rejected = 0;  // set aside in rejected.jsonl: the server does not want them
  std::uint64_t left = 0;      // records in the spool that the server does not have
  std::uint64_t outages = 0;
};

// One value is kept of each key and step, the first one told: the server may have it already, and
// has no way to take one back.
class MlflowSink : public Sink {
 public:
  // Reads what an earlier start left in the spool. Throws nothing: a spool that cannot be written
  // (or that another process holds) is a warning with the way out, and all numbers are dropped.
  explicit MlflowSink(MlflowOptions options);
  // Without end() before, the run counts as killed: what is left is sent by sync().
  ~MlflowSink() override;
  MlflowSink(const MlflowSink&) = delete;
  MlflowSink& operator=(const MlflowSink&) = delete;

  void point(const Point& point) override;
  // BLOCKS until the spool is on the disk; the server is not waited for.
  void flush() override;

  // THREADS: any. Up to 16 MiB are copied into the spool, so that what is sent is what it was now;
  // a larger file is read when its turn comes.
  void artifact(std::string_view name, const std::filesystem::path& path);
  // THREADS: any, also while another thread hangs in this sink. BLOCKS until the server has all, or
  // is found to be out of reach, or `limit` is over; what is left then is said in one line. The
  // first call counts, others wait with it. REQUIRES that a queue in front was flushed.
  void end(const RunEnd& end, std::chrono::milliseconds limit);

  MlflowCounters counters() const;  // THREADS: any
  std::string run_id() const;       // MLflow's; empty until the server was reached. THREADS: any

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace wmtp::tracking::mlflow
