// <split>_metadata.json: the index in a form other tools read, and theirs in a form we read.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/core/checksum.h"
#include "wmtp/data/index/row_index.h"

namespace wmtp::data {

// Writes `path` for `index`, whole or not at all. `source_file` is the name stored.
void write_metadata_json(const std::filesystem::path& path, const RowIndex& index,
                         const std::string& source_file);

struct MetadataRow {
  std::optional<float> reward;
  std::optional<std::int16_t> difficulty;
  std::string problem;  // empty: none
  std::optional<std::uint32_t> output_tokens;
};

struct ForeignMetadata {
  std::uint64_t total = 0;  // stats.total
  std::vector<MetadataRow> rows;
  bool has_token_lengths = false;
  Sha256Digest fingerprint{};  // of the file
};

// ErrorKind::data where a field is missing or of the wrong type, or an index is out of range.
ForeignMetadata read_metadata_json(const std::filesystem::path& path);

}  // namespace wmtp::data
