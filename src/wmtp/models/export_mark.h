// wmtp_export.json: the mark by which an export is known as wmtp's, so that a newer one may replace
// it. Other tools do not look at it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace wmtp::models {

inline constexpr const char* kExportMarkFile = "wmtp_export.json";

struct ExportMark {
  std::string format, source;
  std::optional<std::int64_t> step;  // optimizer steps; nothing: not known
  std::string model = {};            // the <model> of the run's checkpoints; empty: not known
};

std::string export_mark_text(const ExportMark& mark);
// Nothing: there is none, or none that can be read.
std::optional<ExportMark> read_export_mark(const std::filesystem::path& folder);

}  // namespace wmtp::models
