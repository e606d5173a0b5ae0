#include "wmtp/run/report/run_sinks.h"

#include <iostream>

#include "wmtp/core/log.h"
#include "wmtp/http/client.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/tracking/jsonl_sink.h"
#include "wmtp/tracking/mlflow/remote.h"
#include "wmtp/tracking/report/page.h"
#include "wmtp/tracking/run_files.h"
#include "wmtp/tracking/tensorboard/sink.h"

namespace wmtp::run {
namespace {

using tracking::mlflow::MlflowSink;

constexpr const char* kAddressVariable = "MLFLOW_TRACKING_URI";

// The manifest of each checkpoint as an artifact: its hashes outlive the checkpoint.
class ManifestArtifacts : public tracking::Sink {
 public:
  ManifestArtifacts(std::shared_ptr<MlflowSink> mlflow, std::filesystem::path save_dir)
      : mlflow_(std::move(mlflow)), save_dir_(std::move(save_dir)) {}

  void saved(const tracking::SavedCheckpoint& saved) override {
    const std::filesystem::path file = std::filesystem::path(saved.name) / "manifest.json";
    mlflow_->artifact("checkpoints/" + file.string(), save_dir_ / file);
  }

 private:
  std::shared_ptr<MlflowSink> mlflow_;
  std::filesystem::path save_dir_;
};

std::shared_ptr<MlflowSink> open_mlflow(const config::Config& config, const ToldOfRun& told) {
  tracking::mlflow::MlflowOptions options;
  options.tracking_uri = told.offline ? "" : config.mlflow.tracking_uri;
  options.experiment = config.mlflow.experiment;
  options.run_name = config.mlflow.run_name;
  options.spool_dir = config.mlflow.spool_dir;
  options.run_uid = told.run_uid;
  options.from_step = told.from_step;
  options.params = told.params;
  options.tags = told.tags;
  options.inputs = told.inputs;
  for (const char* name : {tracking::kConfigFile, tracking::kEnvironmentFile})
    options.artifacts.push_back({name, config.runtime.run_dir / name});
  options.sync_command = told.sync_command;
  options.env = [env = told.environment,
                 offline = told.offline](const std::string& name) -> std::optional<std::string> {
    if (!env || (offline && name == kAddressVariable)) return std::nullopt;
    return env(name);
  };
  const std::string uri = tracking::mlflow::chosen_uri(options.tracking_uri, options.env);
  if (!uri.empty()) {
    http::require_libcurl();
    tracking::mlflow::check_settings(uri, options.env);
  }
  return std::make_shared<MlflowSink>(std::move(options));
}

}  // namespace

RunSinks open_sinks(const config::Config& config, const tracking::ConsoleOptions& console,
                    const ToldOfRun& told) {
  RunSinks sinks;
  auto kept = std::make_shared<tracking::FanOut>();
  kept->add(std::make_shared<tracking::RunFiles>(config.runtime.run_dir));
  if (config.tracking.jsonl)
    kept->add(std::make_shared<tracking::JsonlSink>(config.tracking.jsonl_path));
  if (config.tracking.tensorboard) {
    auto tensorboard = std::make_shared<tracking::TensorboardSink>(config.tracking.tensorboard_dir,
                                                                   tracking::wall_time_s());
    tensorboard->configuration(told.params);
    kept->add(std::move(tensorboard));
  }
  if (!config.mlflow.experiment.empty()) {
    sinks.mlflow = open_mlflow(config, told);
    kept->add(sinks.mlflow);
    if (config.mlflow.upload_artifacts)
      kept->add(std::make_shared<ManifestArtifacts>(sinks.mlflow, config.checkpoint.save_dir));
  }
  sinks.kept = std::make_shared<tracking::SinkQueue>(
      std::move(kept), static_cast<std::size_t>(config.tracking.queue_points));
  sinks.all.add(std::make_shared<tracking::Console>(std::cout, console));
  sinks.all.add(sinks.kept);
  return sinks;
}

void send_results(const RunSinks& sinks, const config::Config& config,
                  const std::filesystem::path& final_folder) {
  if (!sinks.mlflow) return;
  sinks.kept->flush_within(std::chrono::seconds(60));  // the files below are written by its thread
  const auto& run_dir = config.runtime.run_dir;
  sinks.mlflow->artifact(tracking::kSummaryFile, run_dir / tracking::kSummaryFile);
  if (!config.mlflow.upload_artifacts) return;
  try {
    constexpr const char* kReport = "report.html";
    storage::write_file_atomically(run_dir / kReport,
                                   tracking::report_page({tracking::read_run(run_dir)}));
    sinks.mlflow->artifact(kReport, run_dir / kReport);
    if (config.tracking.jsonl)
      sinks.mlflow->artifact(tracking::kMetricsFile, config.tracking.jsonl_path);
    if (final_folder.empty()) return;
    for (const auto& entry : std::filesystem::directory_iterator(final_folder))
      if (entry.is_regular_file())
        sinks.mlflow->artifact((std::filesystem::path("final") / entry.path().filename()).string(),
                               entry.path());
  } catch (const std::exception& error) {
    log::warn("tracking", "the results of the run are not sent as artifacts: {}", error.what());
  }
}

}  // namespace wmtp::run
