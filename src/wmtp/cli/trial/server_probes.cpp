#include "wmtp/cli/trial/server_probes.h"

#include <fmt/format.h>

#include "wmtp/cli/doctor/mlflow_check.h"
#include "wmtp/cli/doctor/s3_check.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/http/client.h"
#include "wmtp/models/remote/s3_options.h"
#include "wmtp/s3/session.h"
#include "wmtp/tracking/mlflow/remote.h"

namespace wmtp::cli {
namespace {

const Check* first_failed(const std::vector<Check>& checks) {
  for (const Check& check : checks)
    if (check.health == Health::fail) return &check;
  return nullptr;
}

}  // namespace

ProbeResult probe_s3(const run::FetchRequest& request, const http::Environment& environment,
                     bool offline) {
  const config::Config& config = request.config;
  if (!config.checkpoint.s3_upload) return {};
  const s3::Options options = models::s3_options(config.storage.s3, environment);
  s3::open_session(options);  // what is wrong with the keys is told offline as well
  if (offline) return "S3: not asked (--offline)";
  http::require_libcurl();
  std::string newer;
  if (config.checkpoint.resume.kind == config::ResumeFrom::Kind::automatic)
    newer = run::look_for_newer(request);
  const std::vector<Check> checks = check_s3(options);
  if (const Check* failed = first_failed(checks))
    throw Error(ErrorKind::comm, "s3",
                fmt::format("no checkpoint would go up to {}: {}: {}", checks.front().fact,
                            failed->name, failed->fact),
                failed->fix);
  return fmt::format("S3: {}; an object was written and removed{}", checks.front().fact,
                     newer.empty() ? "" : fmt::format("; the run would fetch {}", newer));
}

ProbeResult probe_mlflow(const config::Config& config, const http::Environment& environment,
                         bool offline) {
  if (config.mlflow.experiment.empty()) return {};
  const std::string uri = tracking::mlflow::chosen_uri(config.mlflow.tracking_uri, environment);
  if (offline || uri.empty())
    return fmt::format("MLflow: not asked ({})", offline ? "--offline" : "it has no address");
  http::require_libcurl();
  tracking::mlflow::check_settings(uri, environment);
  const std::vector<Check> checks = check_mlflow({uri, config.mlflow.experiment}, environment);
  const Check* failed = first_failed(checks);
  if (!failed) return fmt::format("MLflow: {} answers", checks.empty() ? uri : checks.front().fact);
  const std::string fact =
      fmt::format("{}: {}: {}", checks.front().fact, failed->name, failed->fact);
  log::warn("mlflow", "{}; {}; the run would train all the same and keep what it has to send in {}",
            fact, failed->fix, config.mlflow.spool_dir.string());
  return fmt::format("MLflow: {}", fact);
}

}  // namespace wmtp::cli
