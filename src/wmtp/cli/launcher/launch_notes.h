// What a launched run tells its launcher through a folder of the launcher's: where its checkpoints
// are. So the launcher sees progress, whatever configuration the run read.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace wmtp::cli {

inline constexpr const char* kNotesVariable = "WMTP_LAUNCH_NOTES";  // names the folder to the ranks

// BLOCKS. By rank 0 at its start; a later note replaces it.
void note_checkpoints(const std::filesystem::path& notes, const std::filesystem::path& save_dir,
                      const std::string& model);
// Nothing: no note, or no checkpoint there.
std::optional<std::int64_t> newest_noted_step(const std::filesystem::path& notes);

}  // namespace wmtp::cli
