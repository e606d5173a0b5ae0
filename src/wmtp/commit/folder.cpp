#include "wmtp/commit/folder.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/commit/guard.h"
#include "wmtp/commit/names.h"
#include "wmtp/commit/pointer.h"
#include "wmtp/commit/removal.h"
#include "wmtp/commit/start_record.h"

namespace wmtp::commit {
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

bool bring_back(FileSystem& files, const std::filesystem::path& save_dir,
                const std::string& entry) {
  const auto hidden = parse_hidden_name(entry);
  if (!hidden || hidden->mark != "old") return false;
  const std::filesystem::path home = save_dir / hidden->name;
  if (files.status(home).kind != FileKind::missing) return false;
  files.rename(save_dir / entry, home);
  files.sync_folder(save_dir);
  return true;
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

std::vector<std::string> find_set_aside(const FileSystem& files,
                                        const std::filesystem::path& save_dir,
                                        std::string_view model) {
  std::vector<std::string> found;
  if (files.status(save_dir).kind == FileKind::missing) return found;
  for (const FolderEntry& entry : files.list(save_dir)) {
    const auto mark = entry.name.rfind(kBadMark);
    if (mark == std::string::npos) continue;
    const auto parsed = parse_checkpoint_name(std::string_view(entry.name).substr(0, mark));
    if (parsed && parsed->model == model) found.push_back(entry.name);
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

std::vector<std::string> clear_leftovers(FileSystem& files, const std::filesystem::path& save_dir,
                                         std::string_view model) {
  std::vector<std::string> cleared;
  if (files.status(save_dir).kind == FileKind::missing) return cleared;
  for (const FolderEntry& entry : files.list(save_dir)) {
    if (!is_leftover(files, save_dir, entry, model)) continue;
    if (parse_checkpoint_name(entry.name))
      finish_removal(files, save_dir / entry.name);
    else if (!bring_back(files, save_dir, entry.name)) {
      // The old one may go only once the rename of what replaced it cannot be lost any more.
      files.sync_folder(save_dir);
      storage::remove_tree(files, save_dir / entry.name);
    }
    cleared.push_back(entry.name);
  }
  return cleared;
}

}  // namespace wmtp::commit
