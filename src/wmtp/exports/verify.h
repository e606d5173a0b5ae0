// Reads an export back as a user will, before it gets its name.
#pragma once
#include <optional>
#include <span>

#include "wmtp/exports/exporter.h"

namespace wmtp::exports {

struct WrittenExport {
  std::filesystem::path folder;
  const ExportSpec& spec;
  const ExportPlan& plan;
  std::span<const std::uint32_t> checksums;  // CRC-32C of each planned tensor's bytes
};

// Opens the folder, compares every tensor with what was written, and the logits with the
// reference's where it has them. Returns their difference. Error io where a tensor differs or the
// folder does not open, numeric where the logits do.
std::optional<double> verify_export(const WrittenExport& written, const ExportReference& reference);

}  // namespace wmtp::exports
