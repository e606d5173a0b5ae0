// Where a run's report goes, as its configuration says: the console at once, the rest through a
// queue. Rank 0 only.
#pragma once
#include <memory>

#include "wmtp/config/config.h"
#include "wmtp/http/ca_bundle.h"
#include "wmtp/run/report/tracked_facts.h"
#include "wmtp/tracking/console.h"
#include "wmtp/tracking/mlflow/mlflow_sink.h"
#include "wmtp/tracking/sink.h"
#include "wmtp/tracking/sink_queue.h"

namespace wmtp::run {

// What trackers are told of a run besides its numbers.
struct ToldOfRun {
  std::string run_uid;         // the same after each resume
  std::int64_t from_step = 0;  // that it goes on from; 0: a new one
  NamedTexts params, tags;
  OrderedJson inputs;
  std::string sync_command;  // sends what is left in the spool; for messages
  http::Environment environment;
  bool offline = false;  // spool only
};

struct RunSinks {
  tracking::FanOut all;
  std::shared_ptr<tracking::SinkQueue> kept;  // among `all`: what a kill must not take away
  std::shared_ptr<tracking::mlflow::MlflowSink> mlflow;  // behind `kept`; null: off
};

// Opens files; Error io where one cannot be written, Error config where MLflow is asked for and
// its settings, or this machine, let nothing be sent. REQUIRES the run's folder.
RunSinks open_sinks(const config::Config& config, const tracking::ConsoleOptions& console,
                    const ToldOfRun& told);

// The artifacts of a run that has ended: its summary and, with mlflow.upload_artifacts, its
// numbers, its report and the model in `final_folder` (empty: none). A failure is a warning.
void send_results(const RunSinks& sinks, const config::Config& config,
                  const std::filesystem::path& final_folder);

}  // namespace wmtp::run
