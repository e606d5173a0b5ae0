#include "wmtp/comm/launch/env_reader.h"

#include <fmt/format.h>

#include <charconv>

#include "wmtp/core/error.h"

namespace wmtp::comm {

std::optional<std::string> EnvReader::text(const std::string& name) {
  std::optional<std::string> value = env_(name);
  if (!value || value->empty()) return std::nullopt;
  seen_[name] = *value;
  return value;
}

std::string EnvReader::text_or(const std::string& name, const std::string& otherwise) {
  return text(name).value_or(otherwise);
}

std::optional<int> EnvReader::number(const std::string& name) {
  const std::optional<std::string> value = text(name);
  if (!value) return std::nullopt;
  int result = -1;
  const char* end = value->data() + value->size();
  const auto parsed = std::from_chars(value->data(), end, result);
  if (parsed.ec != std::errc{} || parsed.ptr != end || result < 0)
    refuse(fmt::format("{}='{}' is not a number of 0 or more", name, *value), "");
  return result;
}

int EnvReader::number_or(const std::string& name, int otherwise) {
  return number(name).value_or(otherwise);
}

void EnvReader::refuse(const std::string& fact, const std::string& hint) const {
  std::string seen;
  for (const auto& [name, value] : seen_) seen += fmt::format(" {}={}", name, value);
  throw Error(ErrorKind::config, "launch", fmt::format("{}; seen:{}", fact, seen), hint);
}

}  // namespace wmtp::comm
