#include "wmtp/config/input_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "wmtp/core/suggest.h"

namespace wmtp::config {
namespace {

bool is_surely_path(const std::string& text) {
  return text.starts_with("/") || text.starts_with("./") || text.starts_with("../") ||
         std::count(text.begin(), text.end(), '/') >= 2;
}

// What is in a bucket is looked for by who reads it.
bool may_be_remote(const Row& row, const std::string& text) {
  return text.starts_with("s3://") &&
         (row.type.name.starts_with("model") || row.key == "checkpoint.resume");
}

bool must_be_there(const Row& row, const std::string& text) {
  if (may_be_remote(row, text)) return false;
  if (row.type.name.starts_with("model")) return is_surely_path(text);
  return row.key != "checkpoint.resume" || (text != "auto" && text != "never");
}

}  // namespace

bool expand_home(Node& node, const Environment& env) {
  if (node.is(Node::Kind::text) && node.text.starts_with("~/")) {
    const auto home = env ? env("HOME") : std::nullopt;
    if (!home || home->empty()) return false;
    node.text = *home + node.text.substr(1);
  }
  return std::all_of(node.items.begin(), node.items.end(),
                     [&](Node& item) { return expand_home(item, env); });
}

std::vector<std::string> missing_inputs(const Row& row, const Config& config) {
  const OrderedJson value = row.value(config);
  std::vector<std::string> missing;
  const auto look = [&](const OrderedJson& item) {
    if (!item.is_string()) return;
    std::error_code error;
    const std::string text = item.get<std::string>();
    if (must_be_there(row, text) && !std::filesystem::exists(text, error)) missing.push_back(text);
  };
  if (value.is_array())
    std::for_each(value.begin(), value.end(), look);
  else
    look(value);
  return missing;
}

std::string instead_of_missing(const std::string& path) {
  if (const auto close = near_path(path)) return fmt::format("; did you mean \"{}\"?", *close);
  std::error_code ignored;
  for (std::filesystem::path above = std::filesystem::path(path).parent_path();
       above.has_relative_path(); above = above.parent_path())
    if (std::filesystem::exists(above, ignored))
      return fmt::format("; \"{}\" does", above.string());
  return "";
}

}  // namespace wmtp::config
