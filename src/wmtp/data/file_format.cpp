#include "wmtp/data/file_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/data/index/foreign_rows.h"
#include "wmtp/data/index/line_chunks.h"
#include "wmtp/data/index/row_schema.h"
#include "wmtp/data/index/source_file.h"

namespace wmtp::data {
namespace {

bool has_key(const std::vector<std::string>& names, std::string_view key) {
  return std::find(names.begin(), names.end(), key) != names.end();
}

[[noreturn]] void refuse_keys(const std::filesystem::path& file, const std::string& wanted,
                              const std::vector<std::string>& names) {
  const std::string hint = conversion_hint(file, names);
  throw Error(
      ErrorKind::data, "data",
      fmt::format("{}: {} in its first good line (keys: {})", file.string(), wanted,
                  fmt::join(names, ", ")),
      !hint.empty() ? hint : "rename its keys, or name the one of plain text: dataset.text.column");
}

}  // namespace

std::vector<std::string> first_keys(const std::filesystem::path& file,
                                    const DatasetOptions& options) {
  LineChunkSource source(file, options.bad_lines.max_line_bytes, std::size_t{1} << 20);
  RowParser parser;
  LineChunk chunk;
  std::vector<std::string> names;
  for (int tries = 0; tries < 8 && names.empty() && source.next(chunk); ++tries)
    if (chunk.overlong_bytes == 0)
      for_each_line(chunk, [&](const Line& line) {
        if (names.empty() && !is_blank(line.text)) parser.keys(line, names);
      });
  return names;
}

Format detect_format(const std::filesystem::path& file, const DatasetOptions& options) {
  if (file.extension() == ".wtok") return Format::tokens;
  if (is_text_file(file)) return Format::text;
  refuse_other_formats(file);
  const std::vector<std::string> names = first_keys(file, options);
  if (has_key(names, "instruction") && has_key(names, "output")) return Format::instruct;
  if (has_key(names, options.text.column)) return Format::text;
  if (names.empty())
    throw Error(ErrorKind::data, "data", fmt::format("{} holds no row", file.string()),
                "a row is a line with one JSON object; plain text goes into files called .txt");
  refuse_keys(file,
              fmt::format("neither \"instruction\" and \"output\" nor \"{}\"", options.text.column),
              names);
}

Format format_of(const std::filesystem::path& file, const DatasetOptions& options) {
  if (options.format == Format::automatic) return detect_format(file, options);
  if (options.format == Format::tokens || (options.format == Format::text && is_text_file(file)))
    return options.format;
  refuse_other_formats(file);
  if (options.bad_lines.on_bad_line != OnBadLine::stop) return options.format;
  const std::vector<std::string> names = first_keys(file, options);
  if (names.empty()) return options.format;  // its first line says what is wrong
  if (options.format == Format::text && !has_key(names, options.text.column))
    refuse_keys(file, fmt::format("no \"{}\"", options.text.column), names);
  const bool named = has_key(names, "instruction") && has_key(names, "output");
  if (options.format == Format::instruct && !named && !conversion_hint(file, names).empty())
    refuse_keys(file, "no \"instruction\" and \"output\"", names);
  return options.format;
}

}  // namespace wmtp::data
