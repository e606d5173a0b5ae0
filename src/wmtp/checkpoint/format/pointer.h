// The files <model>-latest, -best, -final: the name of a checkpoint and a line feed. Hints only;
// resume scans the folder.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "wmtp/storage/file_system.h"

namespace wmtp::checkpoint {

enum class Pointer : std::uint8_t { latest, best, final };
std::string_view name_of(Pointer pointer);
std::string pointer_name(std::string_view model, Pointer pointer);

// BLOCKS. Temporary file, fsync, rename, fsync of the folder. REQUIRES a committed `target`.
void write_pointer(storage::FileSystem& files, const std::filesystem::path& save_dir,
                   std::string_view model, Pointer pointer, std::string_view target);
// The name it holds; nothing when it is missing. Error checkpoint when it names no checkpoint of
// the model, FileError when it cannot be read: who keeps what it names must not take that for
// nothing.
std::optional<std::string> read_pointer(const storage::FileSystem& files,
                                        const std::filesystem::path& save_dir,
                                        std::string_view model, Pointer pointer);

}  // namespace wmtp::checkpoint
