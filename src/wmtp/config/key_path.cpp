#include "wmtp/config/key_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "wmtp/config/old_keys.h"
#include "wmtp/core/suggest.h"

namespace wmtp::config {
namespace {

std::optional<std::size_t> index_of(std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

bool add_step(std::string_view part, std::vector<PathStep>& steps) {
  const std::string_view name = part.substr(0, part.find('['));
  part.remove_prefix(name.size());
  if (name.empty()) return false;
  if (const auto index = index_of(name); index && !steps.empty())
    steps.emplace_back(*index);
  else
    steps.emplace_back(std::string(name));
  while (!part.empty()) {
    const auto close = part.find(']');
    if (part[0] != '[' || close == part.npos) return false;
    const auto index = index_of(part.substr(1, close - 1));
    if (!index) return false;
    steps.emplace_back(*index);
    part.remove_prefix(close + 1);
  }
  return true;
}

std::string name_of_step(const PathStep& step) {
  if (const auto* index = std::get_if<std::size_t>(&step)) return std::to_string(*index);
  return std::get<std::string>(step);
}

std::string parent_of(std::string_view path) {
  const auto dot = path.rfind('.');
  return std::string(dot == path.npos ? "" : path.substr(0, dot));
}

std::vector<std::string> sibling_names(const std::string& parent) {
  std::vector<std::string> names = schema().children(parent);
  for (const auto& [alias, main] : key_aliases())
    if (parent_of(alias) == parent) names.emplace_back(alias.substr(parent.size() + 1));
  return names;
}

Node* step_into(Node& node, const std::string& name, bool create, std::string& fact) {
  if (create && node.is(Node::Kind::null)) node.kind = Node::Kind::map;
  if (!node.is(Node::Kind::map)) {
    fact = fmt::format("no key \"{}\" here: {} is not a map", name, describe(node));
    return nullptr;
  }
  if (Node* found = node.find(name)) return found;
  if (!create) {
    fact = fmt::format("no key \"{}\" here", name);
    return nullptr;
  }
  node.keys.push_back({name, {}});
  return &node.items.emplace_back();
}

Node* step_into(Node& node, std::size_t index, bool create, std::string& fact) {
  if (node.is(Node::Kind::map)) return step_into(node, std::to_string(index), create, fact);
  if (!node.is(Node::Kind::list)) {
    fact = fmt::format("no index {} here: {} is not a list", index, describe(node));
    return nullptr;
  }
  if (index < node.items.size()) return &node.items[index];
  if (create && index == node.items.size()) return &node.items.emplace_back();
  fact = fmt::format("index {} is out of range, the list has {} item{}", index, node.items.size(),
                     node.items.size() == 1 ? "" : "s");
  return nullptr;
}

}  // namespace

std::optional<std::vector<PathStep>> split_path(std::string_view path) {
  std::vector<PathStep> steps;
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t dot = std::min(path.find('.', start), path.size());
    if (!add_step(path.substr(start, dot - start), steps)) return std::nullopt;
    start = dot + 1;
  }
  return steps;
}

std::string main_name(std::string_view path) {
  for (const auto& [alias, main] : key_aliases())
    if (is_under(path, alias)) return std::string(main) + std::string(path.substr(alias.size()));
  return std::string(path);
}

bool is_alias(std::string_view path) {
  return std::ranges::any_of(key_aliases(),
                             [&](const NamePair& pair) { return is_under(path, pair.first); });
}

std::string replacement_of_removed(std::string_view path) {
  for (const OldKey& old : old_keys())
    if (is_under(path, old.path)) return std::string(old.advice);
  return "";
}

bool speaks_of_secrets(std::string_view path) {
  const auto dot = path.rfind('.');
  std::string name(dot == path.npos ? path : path.substr(dot + 1));
  std::transform(name.begin(), name.end(), name.begin(), ::tolower);
  for (const char* word :
       {"secret", "password", "passwd", "access_key", "credential", "api_key", "token_id"})
    if (name.find(word) != name.npos) return true;
  return name == "token" || name == "username";
}

std::string unknown_key_fact(std::string_view path) {
  if (speaks_of_secrets(path))
    return "unknown key; credentials are never keys: S3 takes AWS_* variables, profile files or "
           "the "
           "instance role, MLflow takes MLFLOW_TRACKING_TOKEN, _USERNAME and _PASSWORD";
  for (const auto& [foreign, ours] : foreign_names())
    if (path == foreign) return fmt::format("unknown key; did you mean \"{}\"?", ours);
  const std::string parent = parent_of(path);
  const std::string name(path.substr(parent.empty() ? 0 : parent.size() + 1));
  // Long names may differ by more: "shard_strategy" is near "sharding_strategy".
  if (const auto near =
          nearest(name, sibling_names(parent), std::max<std::size_t>(2, name.size() / 4)))
    return fmt::format("unknown key; did you mean \"{}\"?", *near);
  std::vector<std::string> elsewhere;
  for (const std::string& known : schema().keys_and_sections())
    if (known.ends_with("." + name)) elsewhere.push_back(known);
  if (elsewhere.size() == 1) return fmt::format("unknown key; did you mean \"{}\"?", elsewhere[0]);
  return "unknown key";
}

std::optional<KeyTarget> find_target(std::string_view path, std::string& fact) {
  const auto steps = split_path(path);
  if (!steps) {
    fact = "not a key path; write section.key, list items as key[0]";
    return std::nullopt;
  }
  std::string name;
  for (std::size_t i = 0; i < steps->size(); ++i) {
    name += (name.empty() ? "" : ".") + name_of_step((*steps)[i]);
    const std::string main = main_name(name);
    if (const Row* row = schema().find(main))
      return KeyTarget{
          main, row, {steps->begin() + static_cast<std::ptrdiff_t>(i) + 1, steps->end()}};
    if (const std::string advice = replacement_of_removed(name); !advice.empty()) {
      fact = "no longer a key; " + advice;
      return std::nullopt;
    }
    if (!schema().is_section(main)) {
      fact = unknown_key_fact(name);
      return std::nullopt;
    }
  }
  return KeyTarget{main_name(name), nullptr, {}};
}

Node* walk(Node& value, const std::vector<PathStep>& rest, bool create, std::string& fact) {
  Node* node = &value;
  for (const PathStep& step : rest) {
    node = std::visit([&](const auto& s) { return step_into(*node, s, create, fact); }, step);
    if (!node) return nullptr;
  }
  return node;
}

}  // namespace wmtp::config
