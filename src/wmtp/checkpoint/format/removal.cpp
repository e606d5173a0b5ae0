#include "wmtp/checkpoint/format/removal.h"

#include "wmtp/checkpoint/format/guard.h"
#include "wmtp/checkpoint/format/names.h"

namespace wmtp::checkpoint {

void remove_checkpoint(storage::FileSystem& files, const std::filesystem::path& folder) {
  if (files.status(folder / kManifestFile).kind != storage::FileKind::missing)
    files.rename(folder / kManifestFile, folder / kDeletedManifest);
  // Without this fsync the files could be gone after a power loss and the manifest back.
  guarded(failpoint::pass("retain.manifest.gone"), folder, [&] { files.sync_folder(folder); });
  finish_removal(files, folder);
}

void finish_removal(storage::FileSystem& files, const std::filesystem::path& folder) {
  const auto entries = files.list(folder);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i == entries.size() / 2) fail_if_asked(failpoint::pass("retain.files.half"), folder);
    if (entries[i].name != kDeletedManifest) storage::remove_tree(files, folder / entries[i].name);
  }
  files.sync_folder(folder);  // the mark must outlive what it marks
  storage::remove_tree(files, folder / kDeletedManifest);
  files.remove_folder(folder);
}

}  // namespace wmtp::checkpoint
