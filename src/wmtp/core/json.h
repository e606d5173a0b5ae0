// Strict JSON for files that come from outside: bounded size and depth, duplicate keys and integers
// beyond 64 bits refused, valid UTF-8 only. nlohmann's parser alone keeps the last duplicate and
// turns 2^64 into a float.
#pragma once
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "wmtp/core/error.h"

namespace wmtp {

using Json = nlohmann::json;                 // keys sorted
using OrderedJson = nlohmann::ordered_json;  // keys in the order written

struct JsonLimits {
  std::size_t max_bytes = std::size_t{16} << 20;
  int max_depth = 32;
};

// `name` stands in errors for the text's origin (a path). Errors are of `kind` and give line:column
// or byte offset.
Json parse_json(std::string_view text, std::string_view name, const JsonLimits& limits = {},
                ErrorKind kind = ErrorKind::data);
Json read_json(const std::filesystem::path& path, const JsonLimits& limits = {},
               ErrorKind kind = ErrorKind::data);

}  // namespace wmtp
