// Reading what tracking/append_file.h wrote, also after runs that were killed.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "wmtp/core/json.h"

namespace wmtp::tracking {

struct JsonLine {
  Json object;
  std::string where;  // "runs/a/metrics.jsonl:12", for errors
};

// Calls `take` for each object of the file. Lines that were cut off while being written are left
// out, with a notice; everything else that is no JSON object is ErrorKind::data with file:line.
void for_each_json_line(const std::filesystem::path& path, std::vector<std::string>& notices,
                        const std::function<void(const JsonLine&)>& take);

// Fields of such an object; a missing or wrong one is ErrorKind::data with file:line.
const Json& field(const JsonLine& line, const Json& object, const char* key);
double number_of(const JsonLine& line, const Json& value,
                 std::string_view key);  // "NaN" and "Infinity" too
std::int64_t integer_field(const JsonLine& line, const Json& object, const char* key);
std::string text_field(const JsonLine& line, const Json& object, const char* key);
const Json& array_field(const JsonLine& line, const Json& object, const char* key);

}  // namespace wmtp::tracking
