#include "wmtp/tracking/report/recorded/json_lines.h"

#include <fmt/format.h>

#include <fstream>
#include <limits>

#include "wmtp/core/error.h"

namespace wmtp::tracking {
namespace {

constexpr std::size_t kMaxLineBytes = std::size_t{64} << 20;

[[noreturn]] void refuse(const std::string& where, std::string_view fact) {
  throw Error(ErrorKind::data, "report", fmt::format("{}: {}", where, fact),
              "was the file changed by hand, or copied while it was written?");
}

// Every line we write is one object, so a piece of one begins like an object and has no end.
bool cut_off(const std::string& text, const std::exception& reason) {
  const bool no_end = !text.ends_with('}') ||
                      std::string_view(reason.what()).find("end of input") != std::string::npos;
  return text.starts_with('{') && no_end;
}

}  // namespace

void for_each_json_line(const std::filesystem::path& path, std::vector<std::string>& notices,
                        const std::function<void(const JsonLine&)>& take) {
  std::ifstream file;
  if (std::filesystem::is_regular_file(path)) file.open(path, std::ios::binary);
  if (!file.is_open()) refuse(path.string(), "cannot be read");
  std::string text;
  for (std::size_t number = 1; std::getline(file, text); ++number) {
    if (text.empty()) continue;
    JsonLine line{{}, fmt::format("{}:{}", path.string(), number)};
    try {
      line.object = parse_json(text, line.where, {.max_bytes = kMaxLineBytes, .max_depth = 16});
    } catch (const Error& error) {
      if (!cut_off(text, error)) throw;
      notices.push_back(
          fmt::format("{}: left out, the line was cut off while being written", line.where));
      continue;
    }
    if (!line.object.is_object()) refuse(line.where, "the line is no JSON object");
    take(line);
  }
  if (file.bad()) refuse(path.string(), "reading failed");
}

const Json& field(const JsonLine& line, const Json& object, const char* key) {
  if (!object.is_object()) refuse(line.where, fmt::format("no object around \"{}\"", key));
  const auto found = object.find(key);
  if (found == object.end()) refuse(line.where, fmt::format("\"{}\" is missing", key));
  return *found;
}

double number_of(const JsonLine& line, const Json& value, std::string_view key) {
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  refuse(line.where, fmt::format("\"{}\" is no number", key));
}

std::int64_t integer_field(const JsonLine& line, const Json& object, const char* key) {
  const Json& value = field(line, object, key);
  if (!value.is_number_integer()) refuse(line.where, fmt::format("\"{}\" is no integer", key));
  return value.get<std::int64_t>();
}

std::string text_field(const JsonLine& line, const Json& object, const char* key) {
  const Json& value = field(line, object, key);
  if (!value.is_string()) refuse(line.where, fmt::format("\"{}\" is no text", key));
  return value.get<std::string>();
}

const Json& array_field(const JsonLine& line, const Json& object, const char* key) {
  const Json& value = field(line, object, key);
  if (!value.is_array()) refuse(line.where, fmt::format("\"{}\" is no list", key));
  return value;
}

}  // namespace wmtp::tracking
