// Whole small files into memory. Large files are mapped (storage/mapped_file.h); files are written
// through storage/atomic_file.h.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>

#include "wmtp/core/error.h"

namespace wmtp {

// The bytes of a regular file of at most `max_bytes`; otherwise an Error of `kind` naming path and
// fact.
std::string read_file(const std::filesystem::path& path, std::size_t max_bytes,
                      ErrorKind kind = ErrorKind::io);

}  // namespace wmtp
