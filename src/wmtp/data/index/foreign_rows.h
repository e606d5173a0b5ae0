// Data as other programs write it: what it is, and the one line that makes rows of it.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace wmtp::data {

// Error data for a file that is no JSON Lines at all, told by its first bytes and its name: a JSON
// array, JSON over several lines, CSV or TSV, Parquet. Others, damaged ones too, pass. Reads the
// beginning only. REQUIRES a file of rows: plain text may begin with anything.
void refuse_other_formats(const std::filesystem::path& file);

// How rows with these keys become instruction rows: a hint with a command for `file`, for the
// shapes that are common elsewhere (prompt and completion, messages, ...). Empty for others.
std::string conversion_hint(const std::filesystem::path& file,
                            const std::vector<std::string>& keys);

}  // namespace wmtp::data
