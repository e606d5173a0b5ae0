#include "wmtp/tokenizer/json_fields.h"

#include <fmt/format.h>

namespace wmtp::tokenizer {

JsonFields::JsonFields(const Json& value, std::string file, std::string place)
    : value_(value), file_(std::move(file)), place_(std::move(place)) {
  if (!value.is_object()) damaged("is not an object");
}

void JsonFields::damaged(std::string_view fact) const {
  throw Error(ErrorKind::data, "tokenizer", fmt::format("{}: {} {}", file_, place_, fact),
              "is the file complete and made by a tokenizers release?");
}

void JsonFields::unsupported(std::string_view fact) const {
  throw Error(ErrorKind::config, "tokenizer", fmt::format("{}: {} {}", file_, place_, fact),
              "the reference documentation lists the supported tokenizer components");
}

const Json* JsonFields::find(const char* key) const {
  const auto found = value_.find(key);
  return found == value_.end() || found->is_null() ? nullptr : &*found;
}

const Json& JsonFields::require(const char* key) const {
  const Json* found = find(key);
  if (!found) damaged(fmt::format("lacks '{}'", key));
  return *found;
}

std::string JsonFields::string(const char* key) const {
  const Json& found = require(key);
  if (!found.is_string()) damaged(fmt::format("has a '{}' that is not a string", key));
  return found.get<std::string>();
}

std::optional<std::string> JsonFields::optional_string(const char* key) const {
  if (!find(key)) return std::nullopt;
  return string(key);
}

bool JsonFields::boolean(const char* key, bool fallback) const {
  const Json* found = find(key);
  if (!found) return fallback;
  if (!found->is_boolean()) damaged(fmt::format("has a '{}' that is not true or false", key));
  return found->get<bool>();
}

std::int64_t JsonFields::integer(const char* key) const {
  const Json& found = require(key);
  if (!found.is_number_integer() || found > INT64_MAX)
    damaged(fmt::format("has a '{}' that is not a 64-bit integer", key));
  return found.get<std::int64_t>();
}

JsonFields JsonFields::child(const char* key) const {
  return JsonFields(require(key), file_, place_ == "top" ? key : fmt::format("{}.{}", place_, key));
}

std::size_t JsonFields::list_size(const char* key) const {
  const Json& found = require(key);
  if (!found.is_array()) damaged(fmt::format("has a '{}' that is not a list", key));
  return found.size();
}

JsonFields JsonFields::element(const char* key, std::size_t i) const {
  const std::string list = place_ == "top" ? key : fmt::format("{}.{}", place_, key);
  return JsonFields(require(key).at(i), file_, fmt::format("{}[{}]", list, i));
}

}  // namespace wmtp::tokenizer
