#include "wmtp/config/nested_lines.h"

#include <fmt/format.h>

#include <algorithm>

namespace wmtp::config {
namespace {

std::vector<std::string> parts_of(std::string_view key) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= key.size();) {
    const std::size_t dot = std::min(key.find('.', start), key.size());
    parts.emplace_back(key.substr(start, dot - start));
    start = dot + 1;
  }
  return parts;
}

}  // namespace

std::vector<std::string> NestedLines::add(std::string_view key, std::string_view value) {
  const std::vector<std::string> parts = parts_of(key);
  std::vector<std::string> lines;
  std::size_t depth = 0;
  while (depth + 1 < parts.size() && depth < open_.size() && open_[depth] == parts[depth]) ++depth;
  open_.resize(depth);
  for (; depth + 1 < parts.size(); ++depth) {
    lines.push_back(fmt::format("{:{}}{}:", "", 2 * depth, parts[depth]));
    open_.push_back(parts[depth]);
  }
  lines.push_back(fmt::format("{:{}}{}: {}", "", 2 * depth, parts[depth], value));
  return lines;
}

}  // namespace wmtp::config
