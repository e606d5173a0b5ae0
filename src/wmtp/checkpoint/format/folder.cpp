#include "wmtp/checkpoint/format/folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/checkpoint/format/guard.h"
#include "wmtp/checkpoint/format/names.h"
#include "wmtp/checkpoint/format/pointer.h"
#include "wmtp/checkpoint/format/removal.h"
#include "wmtp/checkpoint/restart_guard.h"

namespace wmtp::checkpoint {
namespace {

using storage::FileKind;
using storage::FileSystem;
using storage::FolderEntry;

constexpr std::string_view kBadMark = ".bad-";

bool was_deleted(const FileSystem& files, const std::filesystem::path& folder) {
  return files.status(folder / kManifestFile).kind == FileKind::missing &&
         files.status(folder / kDeletedManifest).kind != FileKind::missing;
}

bool belongs_to(std::string_view name, std::string_view model) {
  for (const Pointer pointer : {Pointer::latest, Pointer::best, Pointer::final})
    if (name == pointer_name(model, pointer)) return true;
  if (name == start_record_path({}, model)) return true;
  const auto parsed = parse_checkpoint_name(name);
  return parsed && parsed->model == model;
}

// The removal of a checkpoint can be cut before its first file or after its last: a folder without
// either manifest is empty then, but for the folders of its parts.
bool is_hull(const FileSystem& files, const std::filesystem::path& folder) {
  for (const FolderEntry& entry : files.list(folder))
    if (entry.kind != FileKind::folder || !files.list(folder / entry.name).empty()) return false;
  return true;
}

bool is_leftover(const FileSystem& files, const std::filesystem::path& save_dir,
                 const FolderEntry& entry, std::string_view model) {
  if (const auto hidden = parse_hidden_name(entry.name)) return belongs_to(hidden->name, model);
  const auto parsed = parse_checkpoint_name(entry.name);
  const std::filesystem::path folder = save_dir / entry.name;
  return parsed && parsed->model == model && entry.kind == FileKind::folder &&
         (was_deleted(files, folder) || is_hull(files, folder));
}

// The name under which what was moved aside comes back; empty: it has been replaced.
std::string home_of(const FileSystem& files, const std::filesystem::path& save_dir,
                    const std::string& entry) {
  const auto hidden = parse_hidden_name(entry);
  const bool homeless = hidden && hidden->mark == "old" &&
                        files.status(save_dir / hidden->name).kind == FileKind::missing;
  return homeless ? hidden->name : "";
}

// "tiny" of tiny-3steps, tiny-3steps.bad-1, .tiny-3steps.tmp-x and .tiny-latest.tmp-x; else empty.
std::string model_of(std::string_view entry) {
  const auto hidden = parse_hidden_name(entry);
  const std::string_view name = hidden ? std::string_view(hidden->name) : entry;
  if (const auto parsed = parse_checkpoint_name(name.substr(0, name.rfind(kBadMark))))
    return parsed->model;
  if (!hidden) return {};
  for (const std::string_view ending : {"-latest", "-best", "-final", ".starts"})
    if (name.ends_with(ending)) return std::string(name.substr(0, name.size() - ending.size()));
  return {};
}

}  // namespace

std::vector<FoundCheckpoint> find_checkpoints(const FileSystem& files,
                                              const std::filesystem::path& save_dir,
                                              std::string_view model) {
  std::vector<FoundCheckpoint> found;
  if (files.status(save_dir).kind == FileKind::missing) return found;
  for (const FolderEntry& entry : files.list(save_dir)) {
    auto parsed = parse_checkpoint_name(entry.name);
    if (!parsed || entry.kind != FileKind::folder || (!model.empty() && parsed->model != model))
      continue;
    const std::filesystem::path folder = save_dir / entry.name;
    if (was_deleted(files, folder) || is_hull(files, folder)) continue;
    found.push_back({entry.name, std::move(parsed->model), parsed->step});
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.model != b.model ? a.model < b.model : a.step > b.step;
  });
  return found;
}

std::set<std::string> find_models(const FileSystem& files, const std::filesystem::path& save_dir) {
  std::set<std::string> models;
  if (files.status(save_dir).kind == FileKind::missing) return models;
  for (const FolderEntry& entry : files.list(save_dir))
    if (std::string model = model_of(entry.name); !model.empty()) models.insert(std::move(model));
  return models;
}

std::vector<std::string> find_set_aside(const FileSystem& files,
                                        const std::filesystem::path& save_dir,
                                        std::string_view model) {
  std::vector<std::string> found;
  if (files.status(save_dir).kind == FileKind::missing) return found;
  for (const FolderEntry& entry : files.list(save_dir)) {
    const auto mark = entry.name.rfind(kBadMark);
    if (mark == std::string::npos) continue;
    const auto parsed = parse_checkpoint_name(std::string_view(entry.name).substr(0, mark));
    if (parsed && (model.empty() || parsed->model == model)) found.push_back(entry.name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string quarantine(FileSystem& files, const std::filesystem::path& save_dir,
                       std::string_view name) {
  std::string aside;
  for (int k = 1; aside.empty() || files.status(save_dir / aside).kind != FileKind::missing; ++k)
    aside = fmt::format("{}{}{}", name, kBadMark, k);
  guarded(failpoint::pass("load.quarantine.rename"), save_dir / aside, [&] {
    files.rename(save_dir / name, save_dir / aside);
    files.sync_folder(save_dir);
  });
  return aside;
}

std::vector<Leftover> find_leftovers(const FileSystem& files, const std::filesystem::path& save_dir,
                                     std::string_view model) {
  std::vector<Leftover> found;
  if (files.status(save_dir).kind == FileKind::missing) return found;
  for (const FolderEntry& entry : files.list(save_dir))
    if (is_leftover(files, save_dir, entry, model))
      found.push_back({entry.name, home_of(files, save_dir, entry.name)});
  return found;
}

std::vector<std::string> clear_leftovers(FileSystem& files, const std::filesystem::path& save_dir,
                                         std::string_view model) {
  std::vector<std::string> cleared;
  for (const Leftover& entry : find_leftovers(files, save_dir, model)) {
    if (parse_checkpoint_name(entry.name)) {
      finish_removal(files, save_dir / entry.name);
    } else if (const std::string home = home_of(files, save_dir, entry.name); !home.empty()) {
      files.rename(save_dir / entry.name, save_dir / home);
      files.sync_folder(save_dir);
    } else {
      // The old one may go only once the rename of what replaced it cannot be lost any more.
      files.sync_folder(save_dir);
      storage::remove_tree(files, save_dir / entry.name);
    }
    cleared.push_back(entry.name);
  }
  return cleared;
}

}  // namespace wmtp::checkpoint
