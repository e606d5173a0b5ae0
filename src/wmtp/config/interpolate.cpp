#include "wmtp/config/interpolate.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/config/key_path.h"
#include "wmtp/config/tables/schema.h"

namespace wmtp::config {
namespace {

const std::string& key_of(std::size_t row) {
  return schema().rows()[row].key;
}

}  // namespace

std::string escape_references(std::string text) {
  for (std::size_t at = text.find("${"); at != text.npos; at = text.find("${", at + 3))
    text.insert(at, 1, '$');
  return text;
}

OrderedJson escape_all_references(const OrderedJson& value) {
  if (value.is_string()) return escape_references(value.get<std::string>());
  if (!value.is_structured()) return value;
  OrderedJson copy = value;
  for (OrderedJson& item : copy) item = escape_all_references(item);
  return copy;
}

std::nullopt_t Interpolator::fail(const Node& at, std::string_view fact) {
  problems_.add(at.place, key_of(chain_.back()), fact);
  return std::nullopt;
}

const Node* Interpolator::value(std::size_t row) {
  if (!done_[row]) {
    values_[row] = resolve(row, raw_[row]);
    done_[row] = true;
  }
  return values_[row] ? &*values_[row] : nullptr;
}

std::optional<Node> Interpolator::resolve(std::size_t row, const Node& node) {
  chain_.push_back(row);
  auto result = fill(node);
  chain_.pop_back();
  return result;
}

std::optional<Node> Interpolator::fill(const Node& node) {
  if (node.bad) return std::nullopt;
  if (node.is(Node::Kind::text)) return fill_text(node);
  Node copy = node;
  for (Node& item : copy.items) {
    auto filled = fill(item);
    if (!filled) return std::nullopt;
    item = std::move(*filled);
  }
  return copy;
}

std::optional<Node> Interpolator::fill_text(const Node& node) {
  const std::string& text = node.text;
  Node result = text_node("", node.place);
  for (std::size_t i = 0; i < text.size();) {
    if (text.compare(i, 3, "$${") == 0) {
      result.text += "${";
      i += 3;
    } else if (text.compare(i, 2, "${") == 0) {
      const std::size_t close = text.find('}', i);
      if (close == text.npos)
        return fail(node, fmt::format("\"{}\" has no closing brace", text.substr(i)));
      auto part = reference(text.substr(i + 2, close - i - 2), node);
      if (!part) return std::nullopt;
      if (i == 0 && close + 1 == text.size()) return part;
      if (!part->items.empty() || part->is(Node::Kind::null) || part->is(Node::Kind::list) ||
          part->is(Node::Kind::map))
        return fail(node, fmt::format("{} is {}, not text", text.substr(i, close + 1 - i),
                                      describe(*part)));
      result.text += part->text;
      result.from_env = result.from_env || part->from_env;
      i = close + 1;
    } else {
      result.text += text[i++];
    }
    if (result.text.size() > kMaxBytes)
      return fail(node, fmt::format("longer than {} bytes after interpolation", kMaxBytes));
  }
  return result;
}

std::optional<Node> Interpolator::reference(const std::string& name, const Node& at) {
  if (name.starts_with("env:")) return variable(name.substr(4), at);
  std::string fact;
  const auto target = find_target(name, fact);
  if (!target) return fail(at, fmt::format("${{{}}}: {}", name, fact));
  if (!target->row) return fail(at, fmt::format("${{{}}} is a section, not a value", name));
  const std::size_t row = schema().index(*target->row);
  if (const auto loop = std::find(chain_.begin(), chain_.end(), row); loop != chain_.end()) {
    std::vector<std::string> circle;
    for (auto it = loop; it != chain_.end(); ++it) circle.push_back(key_of(*it));
    return fail(
        at, fmt::format("circular reference: {} -> {}", fmt::join(circle, " -> "), key_of(row)));
  }
  const Node* found = value(row);
  if (!found) return std::nullopt;
  std::size_t& depth = depth_[chain_.back()];
  depth = std::max(depth, depth_[row] + 1);
  if (depth > kMaxDepth)
    return fail(at, fmt::format("references are more than {} deep", kMaxDepth));
  num_copied_ += count_nodes(*found);
  if (num_copied_ > kMaxCopied)
    return fail(at, fmt::format("references copy more than {} values", kMaxCopied));
  Node whole = *found;
  Node* part = walk(whole, target->rest, false, fact);
  if (!part) return fail(at, fmt::format("${{{}}}: {}", name, fact));
  Node result = *part;
  result.place = at.place;
  return result;
}

std::optional<Node> Interpolator::variable(const std::string& text, const Node& at) {
  const std::size_t split = text.find(":-");
  const std::string name = text.substr(0, split);
  if (name.empty()) return fail(at, "${env:} names no variable");
  std::optional<std::string> found = env_ ? env_(name) : std::nullopt;
  if (!found && split != text.npos) found = text.substr(split + 2);
  if (!found)
    return fail(
        at, fmt::format("the environment variable {} is not set; set it or write ${{env:{}:-text}}",
                        name, name));
  if (found->size() > kMaxBytes)
    return fail(at, fmt::format("longer than {} bytes after interpolation", kMaxBytes));
  try {
    Node node = plain_scalar(*found, at.place);
    node.from_env = node.loose = true;
    return node;
  } catch (const std::string&) {
    Node node = text_node(*found, at.place);
    node.from_env = node.loose = true;
    return node;
  }
}

}  // namespace wmtp::config
