// Folders of file stores: only their owner may look into them.
#pragma once
#include <chrono>
#include <filesystem>

namespace wmtp::comm {

// Makes `folder` with mode 0700, or accepts one that exists, is no link, is ours and not writable
// for others; Error config otherwise.
void make_private_folder(const std::filesystem::path& folder);

// A folder all ranks of one mpirun on one host agree on without talking: named by user, parent
// process and its start time.
std::filesystem::path folder_of_parent();

}  // namespace wmtp::comm
