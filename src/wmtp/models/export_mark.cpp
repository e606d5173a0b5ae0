#include "wmtp/models/export_mark.h"

#include "wmtp/core/error.h"
#include "wmtp/core/file.h"
#include "wmtp/core/json.h"
#include "wmtp/models/remote/file_systems.h"

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
  const bool is_file = is_remote(path) ? is_there(path) && !is_folder(path)
                                       : std::filesystem::is_regular_file(path, ignored);
  if (!is_file) return std::nullopt;
  try {
    const std::string text = is_remote(path)
                                 ? storage::read_text(*files_of(path), folder, kExportMarkFile,
                                                      folder.string(), kMaxBytes)
                                 : read_file(path, kMaxBytes);
    const Json json = parse_json(text, path.string());
    ExportMark mark{json.at("format").get<std::string>(), json.at("source").get<std::string>(), {}};
    if (json.at("step").is_number_integer()) mark.step = json.at("step").get<std::int64_t>();
    if (json.contains("model")) mark.model = json.at("model").get<std::string>();
    return mark;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace wmtp::models
