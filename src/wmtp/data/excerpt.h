// The beginnings of data files as files of their own, for a trial that is not to read all of them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "wmtp/data/options.h"

namespace wmtp::data {

inline constexpr std::uint64_t kExcerptRows = 100;
// Of plain text, which is cut into blocks of max_length tokens wherever its lines end.
inline constexpr std::uint64_t kExcerptTextBytes = std::uint64_t{2} << 20;

// Where the excerpt of the file with this number lies below `folder`; what has no excerpt, a token
// file, is its own.
std::filesystem::path excerpt_path(const std::filesystem::path& file, std::size_t number,
                                   const DatasetOptions& options,
                                   const std::filesystem::path& folder);

// Writes the first kExcerptRows lines of each file, uncompressed, in the order of expand_files. Row
// numbers stay what they are. Whether something was left out. Errors as format_of and expand_files.
bool write_excerpts(const DatasetOptions& options, const std::filesystem::path& folder);

// The files of write_excerpts.
std::vector<std::filesystem::path> excerpt_files(const DatasetOptions& options,
                                                 const std::filesystem::path& folder);

}  // namespace wmtp::data
