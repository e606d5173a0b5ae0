// What sending needs of a server, so that tests can stand in for one.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "wmtp/http/ca_bundle.h"
#include "wmtp/tracking/mlflow/rest/server.h"

namespace wmtp::tracking::mlflow {

// The calls of Server, with its errors.
class Remote {
 public:
  virtual ~Remote() = default;
  virtual std::string experiment(std::string_view name) = 0;
  virtual Run create_run(const NewRun& run) = 0;
  virtual Run get_run(std::string_view run_id) = 0;
  virtual std::optional<Run> find_run(std::string_view experiment_id, const KeyValue& tag) = 0;
  virtual void log_batch(std::string_view run_id, const Batch& batch) = 0;
  virtual void log_inputs(std::string_view run_id, const OrderedJson& inputs) = 0;
  virtual void set_tag(std::string_view run_id, const KeyValue& tag) = 0;
  virtual void update_run(std::string_view run_id, RunStatus status,
                          std::optional<std::int64_t> end_ms) = 0;
  virtual void upload(const Run& run, std::string_view name, const std::filesystem::path& file) = 0;
};

// A real one. Error config as Server has it. BORROWS cancelled.
std::unique_ptr<Remote> connect_server(const std::string& uri, const http::Environment& env,
                                       const std::atomic<bool>& cancelled);

// Error config where address, credentials or TLS settings are none that a server could be reached
// with. Sends nothing.
void check_settings(const std::string& uri, const http::Environment& env);

// `uri` where it is not empty, otherwise MLFLOW_TRACKING_URI; empty where there is none either.
std::string chosen_uri(const std::string& uri, const http::Environment& env);

}  // namespace wmtp::tracking::mlflow
