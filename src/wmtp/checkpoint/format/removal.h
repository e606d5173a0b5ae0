// Removing a checkpoint so that a cut at any moment leaves all of it or none.
#pragma once
#include <filesystem>

#include "wmtp/storage/file_system.h"

namespace wmtp::checkpoint {

// BLOCKS. The manifest goes first, durably: from then on the folder is no checkpoint. It goes by
// taking the name manifest.deleted, which marks the rest for finish_removal.
void remove_checkpoint(storage::FileSystem& files, const std::filesystem::path& folder);

// The rest of a removal that was cut. REQUIRES that the manifest is gone.
void finish_removal(storage::FileSystem& files, const std::filesystem::path& folder);

}  // namespace wmtp::checkpoint
