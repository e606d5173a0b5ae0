// What a data file holds: rows, plain text or tokens.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "wmtp/data/options.h"

namespace wmtp::data {

// The format of a file by its name and first good line; ErrorKind::data listing the keys found, or
// naming what other format it is (index/foreign_rows.h).
Format detect_format(const std::filesystem::path& file, const DatasetOptions& options);

// The format that the options name, or the detected one. ErrorKind::data where the file is plainly
// of another kind than that and bad lines stop a run.
Format format_of(const std::filesystem::path& file, const DatasetOptions& options);

// The keys of the first line that is an object; none in a file without one near its beginning.
// REQUIRES a file of JSON Lines.
std::vector<std::string> first_keys(const std::filesystem::path& file,
                                    const DatasetOptions& options);

}  // namespace wmtp::data
