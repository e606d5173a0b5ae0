// An MLflow tracking server over its REST interface: one call here is one request there, or a few.
#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wmtp/core/json.h"
#include "wmtp/http/client.h"
#include "wmtp/tracking/mlflow/rest/refusal.h"

namespace wmtp::tracking::mlflow {

struct Metric {
  std::string key;
  double value = 0;
  std::int64_t timestamp_ms = 0, step = 0;
};
using KeyValue = std::pair<std::string, std::string>;

// What one log-batch takes. REQUIRES keys and values within the limits of limits.h.
struct Batch {
  std::vector<Metric> metrics;
  std::vector<KeyValue> params, tags;
};

enum class RunStatus { running, finished, failed, killed };

struct Run {
  std::string run_id, experiment_id, artifact_uri;
  bool is_deleted = false;  // until someone restores it, every log-batch is Refused
  std::map<std::string, std::string> params, tags;
  std::map<std::string, std::int64_t> last_steps;  // of each metric, the newest step it has
};

struct NewRun {
  std::string experiment_id, name;
  std::int64_t start_ms = 0;
  std::vector<KeyValue> tags;
};

// Everything that goes wrong on the way (no connection, time-outs, 408, 429, 5xx) is an Error comm:
// worth another try later. One try a call: when to try again is the caller's. Refusals are Refused,
// answers that make no sense (a page of another service with status 200) Error data.
// THREADS: one at a time.
class Server {
 public:
  // `uri` as a user wrote it (Error config where it is no http(s) URL, or has user info). Reads
  // credentials and TLS settings of MLFLOW_TRACKING_* from options.env. BORROWS cancelled.
  Server(std::string_view uri, http::ClientOptions options,
         const std::atomic<bool>* cancelled = nullptr);
  ~Server();

  // The experiment's id; makes it where there is none. Refused where it was deleted there.
  std::string experiment(std::string_view name);
  Run create_run(const NewRun& run);
  Run get_run(std::string_view run_id);
  // The run of the experiment that has this tag, if there is one. REQUIRES a tag without quotation
  // marks, backslashes and backticks.
  std::optional<Run> find_run(std::string_view experiment_id, const KeyValue& tag);
  void log_batch(std::string_view run_id, const Batch& batch);
  // `inputs` as the REST interface has them: {"datasets": [..], "models": [..]}.
  void log_inputs(std::string_view run_id, const OrderedJson& inputs);
  void set_tag(std::string_view run_id, const KeyValue& tag);
  // `end_ms` for a run that has ended.
  void update_run(std::string_view run_id, RunStatus status, std::optional<std::int64_t> end_ms);
  // The file as `name` ("config.yaml", "final/model.safetensors") below the run's artifacts.
  // Refused where the artifact store is none that goes through the server.
  void upload(const Run& run, std::string_view name, const std::filesystem::path& file);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace wmtp::tracking::mlflow
