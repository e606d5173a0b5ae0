#include "wmtp/models/model_name.h"

#include "wmtp/checkpoint/format/names.h"
#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/config/derived.h"
#include "wmtp/core/error.h"
#include "wmtp/models/export_mark.h"
#include "wmtp/models/remote/file_systems.h"
#include "wmtp/models/run_paths.h"
#include "wmtp/storage/file_system.h"

namespace wmtp::models {
namespace {

namespace fs = std::filesystem;

std::string name_of_checkpoint(const fs::path& checkpoint) {
  if (const auto name = checkpoint::parse_checkpoint_name(checkpoint.filename().string()))
    return name->model;
  const auto files = files_of(checkpoint);
  return checkpoint::CheckpointReader(*files, checkpoint).manifest().model;
}

// Exports of older versions do not tell it; the checkpoints beside them do.
std::string name_of_export(const fs::path& folder) {
  const auto mark = read_export_mark(folder);
  if (!mark || !mark->model.empty()) return mark ? mark->model : std::string();
  const auto newest = resolve_checkpoint(folder.parent_path());
  return newest ? name_of_checkpoint(*newest) : std::string();
}

// Empty: `path` is nothing that a run left.
std::string name_in_run(fs::path path) {
  path = is_remote(path) ? plain_remote(path) : fs::absolute(path).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.filename() == "final") return name_of_export(path);
  if (const auto newest = resolve_checkpoint(path)) return name_of_checkpoint(*newest);
  return is_there(path / "config.json") ? std::string() : name_of_export(path / "final");
}

}  // namespace

std::string model_name(const config::Config& config) {
  const config::PolicyModel& policy = config.models.policy;
  if (!policy.name) {
    try {
      if (is_there(policy.path.text))
        if (std::string name = name_in_run(policy.path.text); !name.empty()) return name;
    } catch (const Error&) {  // whoever opens the model says what is wrong with it
    }
  }
  return config::policy_name(config);
}

}  // namespace wmtp::models
