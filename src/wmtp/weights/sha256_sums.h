// SHA256SUMS files, as sha256sum and the Python project write them beside weights.
#pragma once
#include <filesystem>

namespace wmtp::weights {

// Every file that folder/SHA256SUMS lists must be there and have its sum: Error data with the file
// and both sums. Nothing where the folder has no SHA256SUMS. BLOCKS: reads all bytes of the files,
// once in a process as long as they stay as they are. THREADS: any.
void check_sha256_sums(const std::filesystem::path& folder);

}  // namespace wmtp::weights
