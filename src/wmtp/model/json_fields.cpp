#include "wmtp/model/json_fields.h"

#include <fmt/format.h>

#include <limits>

namespace wmtp::model {
namespace {

bool is_int64(const Json& value) {
  if (value.is_number_unsigned())
    return value.get<std::uint64_t>() <=
           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return value.is_number_integer();
}

std::string shown(const Json& value) {
  const std::string text = value.dump();
  return fmt::format("{:.60}{}", text, text.size() > 60 ? "..." : "");
}

}  // namespace

JsonFields::JsonFields(const Json& object, std::string origin, std::string prefix)
    : object_(&object), origin_(std::move(origin)), prefix_(std::move(prefix)) {
  if (!object.is_object())
    throw Error(ErrorKind::config, "model",
                fmt::format("{}: {} must be an object, is {}", origin_,
                            prefix_.empty() ? "the whole" : prefix_, shown(object)));
}

const Json* JsonFields::find(std::string_view key) const {
  const auto found = object_->find(std::string(key));
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

void JsonFields::refuse(std::string_view key, std::string_view fact, std::string_view hint) const {
  throw Error(ErrorKind::config, "model", fmt::format("{}: {}{} {}", origin_, prefix_, key, fact),
              hint);
}

std::optional<std::int64_t> JsonFields::integer(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!is_int64(*value)) refuse(key, fmt::format("is {}, must be an integer", shown(*value)));
  return value->get<std::int64_t>();
}

std::optional<std::int64_t> JsonFields::limit(std::string_view key) const {
  const Json* value = find(key);
  if (value && value->is_number() && value->get<double>() >= static_cast<double>(kNoLimit))
    return kNoLimit;
  return integer(key);
}

std::optional<double> JsonFields::number(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number()) refuse(key, fmt::format("is {}, must be a number", shown(*value)));
  return value->get<double>();
}

std::optional<bool> JsonFields::boolean(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) refuse(key, fmt::format("is {}, must be true or false", shown(*value)));
  return value->get<bool>();
}

std::optional<std::string> JsonFields::text(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) refuse(key, fmt::format("is {}, must be a string", shown(*value)));
  return value->get<std::string>();
}

std::vector<std::int64_t> JsonFields::integers(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return {};
  if (!value->is_array()) return {*integer(key)};
  std::vector<std::int64_t> list;
  for (const Json& item : *value) {
    if (!is_int64(item)) refuse(key, fmt::format("holds {}, must hold integers", shown(item)));
    list.push_back(item.get<std::int64_t>());
  }
  return list;
}

std::optional<JsonFields> JsonFields::object(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_object()) refuse(key, fmt::format("is {}, must be an object", shown(*value)));
  return JsonFields(*value, origin_, fmt::format("{}{}.", prefix_, key));
}

std::int64_t JsonFields::required_integer(std::string_view key) const {
  if (const auto value = integer(key)) return *value;
  refuse(key, "is missing");
}

double JsonFields::required_number(std::string_view key) const {
  if (const auto value = number(key)) return *value;
  refuse(key, "is missing");
}

}  // namespace wmtp::model
