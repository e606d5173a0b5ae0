#include "wmtp/models/run_paths.h"

#include <fmt/format.h>

#include "wmtp/checkpoint/format/folder.h"
#include "wmtp/checkpoint/format/names.h"
#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/core/error.h"
#include "wmtp/core/file.h"
#include "wmtp/core/log.h"
#include "wmtp/models/export_mark.h"
#include "wmtp/models/remote/file_systems.h"

namespace wmtp::models {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRunCheckpoints = "checkpoints";
constexpr const char* kRunExport = "final";

[[noreturn]] void refuse_place(const std::string& fact, const std::string& hint) {
  throw Error(ErrorKind::config, "checkpoint", fact, hint);
}

// "D/" is D; where a link leads is what is meant.
fs::path plain_path(const fs::path& given) {
  if (is_remote(given)) return plain_remote(given);
  fs::path path = given.lexically_normal();
  if (!path.has_filename() && path.has_parent_path()) path = path.parent_path();
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path target = fs::canonical(path, error);
  return error ? path : target;
}

std::optional<fs::path> pointed_to(const fs::path& path) {
  const std::string name = path.filename().string();
  const bool named_so =
      name.ends_with("-latest") || name.ends_with("-best") || name.ends_with("-final");
  if (!named_so) return std::nullopt;
  constexpr std::size_t kMaxBytes = 4096;
  std::string target = is_remote(path) ? storage::read_text(*files_of(path), path.parent_path(),
                                                            name, path.string(), kMaxBytes)
                                       : read_file(path, kMaxBytes, ErrorKind::config);
  if (target.ends_with('\n')) target.pop_back();
  const fs::path place = path.parent_path() / target;
  if (!checkpoint::parse_checkpoint_name(target) || !is_checkpoint(place))
    refuse_place(
        fmt::format("{} names {:.80}, which is no checkpoint beside it", path.string(), target),
        "`wmtp checkpoint list` shows those that are there");
  return place;
}

std::vector<checkpoint::FoundCheckpoint> checkpoints_in(const fs::path& folder,
                                                        std::string_view model) {
  if (!is_folder(folder)) return {};
  auto found = checkpoint::find_checkpoints(*files_of(folder), folder, model);
  std::erase_if(found, [&](const auto& one) { return !is_checkpoint(folder / one.name); });
  return found;
}

fs::path newest_of(const fs::path& folder, const std::vector<checkpoint::FoundCheckpoint>& found) {
  for (const checkpoint::FoundCheckpoint& one : found)
    if (one.model != found.front().model)
      refuse_place(fmt::format("{} holds checkpoints of several models, {} and {}", folder.string(),
                               found.front().model, one.model),
                   "name one checkpoint");
  return folder / found.front().name;
}

bool is_after(const fs::path& newest, const fs::path& final_export) {
  const std::int64_t step = checkpoint::parse_checkpoint_name(newest.filename().string())->step;
  const auto mark = read_export_mark(final_export);
  if (!mark || !mark->step) {
    log::warn("checkpoint", "{} is taken; whether {} is newer is not known", final_export.string(),
              newest.string());
    return false;
  }
  if (step > *mark->step)
    log::info("checkpoint", "{} is taken; {} is of step {} only", newest.string(),
              final_export.string(), *mark->step);
  return step > *mark->step;
}

}  // namespace

bool is_checkpoint(const fs::path& path) {
  const fs::path manifest = path / checkpoint::kManifestFile;
  if (is_remote(path)) return files_of(path)->status(manifest).kind == storage::FileKind::file;
  std::error_code ignored;
  return fs::is_regular_file(manifest, ignored);
}

std::optional<fs::path> resolve_checkpoint(const fs::path& given, std::string_view model) {
  const fs::path path = plain_path(given);
  if (is_there(path) && !is_folder(path)) return pointed_to(path);
  if (is_checkpoint(path)) return path;
  if (!is_folder(path)) return std::nullopt;
  if (checkpoint::parse_checkpoint_name(path.filename().string())) return path;
  for (const fs::path& folder : {path, path / kRunCheckpoints})
    if (const auto found = checkpoints_in(folder, model); !found.empty())
      return newest_of(folder, found);
  return std::nullopt;
}

fs::path resolve_model_path(const fs::path& path) {
  for (const char* own : {"manifest.json", "config.json", "params.json", "adapter_config.json"})
    if (is_there(path / own)) return path;
  const auto newest = resolve_checkpoint(path);
  const fs::path final_export = path / kRunExport;
  if (!is_folder(final_export)) return newest.value_or(path);
  return newest && is_after(*newest, final_export) ? *newest : final_export;
}

fs::path checkpoint_to_resume(const fs::path& path, std::string_view model) {
  const auto found = resolve_checkpoint(path, model);
  if (!found)
    refuse_place(fmt::format("{} holds no checkpoint of {}: it is {}", path.string(), model,
                             describe_path(path)),
                 "weights alone are given as models.policy.path; --resume auto takes the newest "
                 "checkpoint of checkpoint.save_dir");
  const auto name = checkpoint::parse_checkpoint_name(found->filename().string());
  if (!name) {
    const auto files = files_of(*found);
    const auto manifest = checkpoint::CheckpointReader(*files, *found).manifest();
    refuse_place(
        fmt::format("{} is step {} of {} under another name", found->string(), manifest.step,
                    manifest.model),
        fmt::format("rename it to {}", checkpoint::checkpoint_name(manifest.model, manifest.step)));
  }
  if (name->model != model)
    refuse_place(fmt::format("{} is a checkpoint of {}; this run's model is called {}",
                             found->string(), name->model, model),
                 "models.policy.name says what a run's model is called");
  return *found;
}

fs::path checkpoints_folder(const fs::path& given) {
  const fs::path path = plain_path(given);
  const bool is_pointer = is_there(path) && !is_folder(path) && pointed_to(path);
  if (is_pointer || is_checkpoint(path))
    return path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!is_folder(path))
    refuse_place(fmt::format("{} is no folder", path.string()),
                 "name a run's folder, or the folder of its checkpoints (checkpoint.save_dir)");
  const bool inside =
      checkpoint::find_models(*files_of(path), path).empty() && is_folder(path / kRunCheckpoints);
  return inside ? path / kRunCheckpoints : path;
}

std::string describe_path(const fs::path& path) {
  if (!is_there(path)) return "not there";
  if (!is_folder(path)) return "a file";
  if (path.filename().string().find("steps.bad-") != std::string::npos)
    return "one that was set aside as damaged";
  if (const auto mark = read_export_mark(path)) return fmt::format("an export ({})", mark->format);
  if (is_there(path / "adapter_config.json")) return "a PEFT adapter";
  if (is_there(path / "config.json") || is_there(path / "params.json")) return "a model folder";
  if (!checkpoints_in(path, {}).empty()) return "a folder of checkpoints";
  if (is_folder(path / kRunCheckpoints) || is_there(path / "metrics.jsonl"))
    return "a run's folder";
  return "a folder without manifest.json";
}

}  // namespace wmtp::models
