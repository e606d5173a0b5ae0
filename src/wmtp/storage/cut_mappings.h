// Mapped files that another process cuts short: touching a page past the new end raises SIGBUS,
// which by itself ends the process without a word. The mappings are known here, so that the end has
// a name.
#pragma once
#include <cstddef>
#include <filesystem>

namespace wmtp::storage {

// From now on SIGBUS at an address of a MappedFile writes one line with the file's name to stderr
// and ends the process with 74. Any other SIGBUS does what it did before.
void end_on_cut_mappings();

// THREADS: any. For MappedFile: what is mapped, until it is forgotten before it is unmapped.
void remember_mapping(const std::byte* data, std::size_t size, const std::filesystem::path& path);
void forget_mapping(const std::byte* data);

}  // namespace wmtp::storage
