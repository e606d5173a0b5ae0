#include "wmtp/tracking/report/recorded/run_links.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/http/url.h"
#include "wmtp/storage/file_system.h"
#include "wmtp/tracking/mlflow/spool/spool_files.h"

namespace wmtp::tracking {
namespace {

// Ids are put into an address as they are.
bool is_id(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_';
  });
}

// The page of a run as MLflow's own web pages name it; "" where the server has none.
std::string mlflow_page(const mlflow::SpooledRun& run) {
  if (!is_id(run.run_id) || !is_id(run.experiment_id)) return "";
  try {
    http::Url url = http::parse_url(run.tracking_uri, "tracking_uri");
    url.query.clear();
    std::string base = url.text();
    while (base.ends_with('/')) base.pop_back();
    return fmt::format("{}/#/experiments/{}/runs/{}", base, run.experiment_id, run.run_id);
  } catch (const Error&) {
    return "";
  }
}

void add_mlflow(const RunData& run, std::vector<RunLink>& links) {
  const std::filesystem::path named(std::string(config_value(run, "mlflow.spool_dir")));
  const auto spool = run.folder / named.filename();
  storage::LocalFileSystem files;
  std::error_code ignored;
  if (!named.has_filename() || std::filesystem::is_symlink(spool, ignored)) return;
  for (const auto& entry : std::filesystem::directory_iterator(spool, ignored)) {
    if (entry.is_symlink(ignored) || !entry.is_directory(ignored)) continue;
    const auto found = mlflow::SpoolFiles(files, entry.path()).run();
    if (!found || found->run_id.empty()) continue;
    links.push_back({"MLflow",
                     fmt::format("run {} of experiment {}", found->run_id, found->experiment),
                     mlflow_page(*found)});
  }
}

}  // namespace

std::vector<RunLink> recorded_links(const RunData& run) {
  std::vector<RunLink> links;
  add_mlflow(run, links);
  if (config_value(run, "tracking.tensorboard") == "true")
    links.push_back(
        {"TensorBoard",
         fmt::format("tensorboard --logdir {}", config_value(run, "tracking.tensorboard_dir")),
         ""});
  return links;
}

}  // namespace wmtp::tracking
