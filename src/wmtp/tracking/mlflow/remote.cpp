#include "wmtp/tracking/mlflow/remote.h"

#include "wmtp/tracking/mlflow/bucket_artifacts.h"
#include "wmtp/tracking/mlflow/rest/credentials.h"

namespace wmtp::tracking::mlflow {
namespace {

http::ClientOptions client_options(const http::Environment& env) {
  http::ClientOptions options;
  options.env = env;
  return options;
}

class RealRemote final : public Remote {
 public:
  RealRemote(const std::string& uri, const http::Environment& env,
             const std::atomic<bool>& cancelled)
      : server_(uri, client_options(env), &cancelled), bucket_(env, cancelled) {}

  std::string experiment(std::string_view name) override { return server_.experiment(name); }
  Run create_run(const NewRun& run) override { return server_.create_run(run); }
  Run get_run(std::string_view run_id) override { return server_.get_run(run_id); }
  std::optional<Run> find_run(std::string_view experiment_id, const KeyValue& tag) override {
    return server_.find_run(experiment_id, tag);
  }
  void log_batch(std::string_view run_id, const Batch& batch) override {
    server_.log_batch(run_id, batch);
  }
  void log_inputs(std::string_view run_id, const OrderedJson& inputs) override {
    server_.log_inputs(run_id, inputs);
  }
  void set_tag(std::string_view run_id, const KeyValue& tag) override {
    server_.set_tag(run_id, tag);
  }
  void update_run(std::string_view run_id, RunStatus status,
                  std::optional<std::int64_t> end_ms) override {
    server_.update_run(run_id, status, end_ms);
  }
  void upload(const Run& run, std::string_view name, const std::filesystem::path& file) override {
    if (BucketArtifacts::takes(run.artifact_uri))
      bucket_.upload(run.artifact_uri, name, file);
    else
      server_.upload(run, name, file);
  }

 private:
  Server server_;
  BucketArtifacts bucket_;
};

}  // namespace

std::unique_ptr<Remote> connect_server(const std::string& uri, const http::Environment& env,
                                       const std::atomic<bool>& cancelled) {
  return std::make_unique<RealRemote>(uri, env, cancelled);
}

void check_settings(const std::string& uri, const http::Environment& env) {
  parse_tracking_uri(uri);
  read_credentials(env);
  http::ClientOptions options;
  options.env = env;
  apply_tls_variables(options);
}

std::string chosen_uri(const std::string& uri, const http::Environment& env) {
  if (!uri.empty() || !env) return uri;
  return env("MLFLOW_TRACKING_URI").value_or("");
}

}  // namespace wmtp::tracking::mlflow
