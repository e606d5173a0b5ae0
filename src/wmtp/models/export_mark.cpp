#include "wmtp/models/export_mark.h"

#include "wmtp/core/error.h"
#include "wmtp/core/file.h"
#include "wmtp/core/json.h"

namespace wmtp::models {

std::string export_mark_text(const ExportMark& mark) {
  OrderedJson json{{"format", mark.format}, {"source", mark.source}, {"step", nullptr}};
  if (mark.step) json["step"] = *mark.step;
  if (!mark.model.empty()) json["model"] = mark.model;
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::optional<ExportMark> read_export_mark(const std::filesystem::path& folder) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 16;
  const std::filesystem::path path = folder / kExportMarkFile;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  try {
    const Json json = parse_json(read_file(path, kMaxBytes), path.string());
    ExportMark mark{json.at("format").get<std::string>(), json.at("source").get<std::string>(), {}};
    if (json.at("step").is_number_integer()) mark.step = json.at("step").get<std::int64_t>();
    if (json.contains("model")) mark.model = json.at("model").get<std::string>();
    return mark;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace wmtp::models
