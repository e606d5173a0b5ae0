#include "wmtp/checkpoint/load/listing.h"

#include <fmt/format.h>

#include "wmtp/checkpoint/format/folder.h"
#include "wmtp/checkpoint/format/names.h"
#include "wmtp/checkpoint/load/reader.h"

namespace wmtp::checkpoint {
namespace {

void look_into(const storage::FileSystem& files, const std::filesystem::path& folder,
               ListedCheckpoint& listed) {
  try {
    CheckpointReader reader(files, folder);
    listed.created = reader.manifest().created;
    listed.bytes = reader.manifest().total_bytes();
    reader.check_headers();
  } catch (const DamageError& error) {
    listed.fault = to_text(error.damage());
  } catch (const Error& error) {
    listed.fault = error.fact();
  }
}

std::uint64_t bytes_in(const storage::FileSystem& files, const std::filesystem::path& path) {
  const storage::FileStatus status = files.status(path);
  if (status.kind != storage::FileKind::folder) return status.bytes;
  std::uint64_t sum = 0;
  for (const storage::FolderEntry& entry : files.list(path))
    sum += bytes_in(files, path / entry.name);
  return sum;
}

}  // namespace

std::vector<ListedCheckpoint> list_checkpoints(const storage::FileSystem& files,
                                               const std::filesystem::path& save_dir) {
  if (files.status(save_dir).kind != storage::FileKind::folder)
    throw Error(ErrorKind::config, "checkpoint", fmt::format("{} is no folder", save_dir.string()),
                "name a run's folder, or the folder of its checkpoints (checkpoint.save_dir)");
  std::vector<ListedCheckpoint> list;
  for (FoundCheckpoint& found : find_checkpoints(files, save_dir, "")) {
    ListedCheckpoint listed{.name = found.name, .model = found.model, .step = found.step};
    look_into(files, save_dir / found.name, listed);
    for (const Pointer pointer : {Pointer::latest, Pointer::best, Pointer::final})
      if (is_named_by(files, save_dir, found, pointer)) listed.marks.push_back(pointer);
    list.push_back(std::move(listed));
  }
  return list;
}

std::vector<SetAside> list_set_aside(const storage::FileSystem& files,
                                     const std::filesystem::path& save_dir) {
  std::vector<SetAside> list;
  for (std::string& name : find_set_aside(files, save_dir, "")) {
    const std::uint64_t bytes = bytes_in(files, save_dir / name);
    list.push_back({std::move(name), bytes});
  }
  return list;
}

bool is_named_by(const storage::FileSystem& files, const std::filesystem::path& save_dir,
                 const FoundCheckpoint& found, Pointer pointer) {
  try {
    return read_pointer(files, save_dir, found.model, pointer) == found.name;
  } catch (const Error&) {
    return false;
  }
}

bool is_checkpoint(const storage::FileSystem& files, const std::filesystem::path& folder) {
  return files.status(folder / kManifestFile).kind == storage::FileKind::file;
}

}  // namespace wmtp::checkpoint
