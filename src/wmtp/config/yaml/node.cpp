#include "wmtp/config/yaml/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace wmtp::config {
namespace {

bool digits_only(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view unsigned_part(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return text;
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool looks_real(std::string_view text) {
  text = unsigned_part(text);
  if (const auto e = text.find_first_of("eE"); e != text.npos) {
    if (!digits_only(unsigned_part(text.substr(e + 1)))) return false;
    text = text.substr(0, e);
  }
  const auto dot = text.find('.');
  if (dot == text.npos) return digits_only(text);
  const std::string_view before = text.substr(0, dot), after = text.substr(dot + 1);
  if (before.empty()) return digits_only(after);
  return digits_only(before) && (after.empty() || digits_only(after));
}

bool is_special_number(std::string_view text) {
  std::string lower(unsigned_part(text));
  std::transform(lower.begin(), lower.end(), lower.begin(), ::tolower);
  return lower == ".inf" || lower == ".nan" || lower == "inf" || lower == "nan" ||
         lower == "infinity";
}

std::optional<std::int64_t> integer_of(std::string_view text) {
  int base = 10;
  std::string_view digits = text;
  if (digits.starts_with("0x")) base = 16;
  if (digits.starts_with("0o")) base = 8;
  if (base != 10) digits.remove_prefix(2);
  if (base == 10 && digits.starts_with('+')) digits.remove_prefix(1);
  if (base == 10 ? !digits_only(unsigned_part(text)) : digits.starts_with('-')) return {};
  std::int64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return {};
  return value;
}

void set_real(Node& node) {
  std::string_view digits = node.text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  node.kind = Node::Kind::real;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), node.real);
  if (result.ec == std::errc::result_out_of_range || !std::isfinite(node.real))
    throw fmt::format("the number {} is beyond what a double can hold", node.text);
}

}  // namespace

Node* Node::find(std::string_view key) {
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (keys[i].name == key) return &items[i];
  return nullptr;
}

Node plain_scalar(std::string text, Place place) {
  Node node;
  node.place = place;
  node.text = std::move(text);
  const std::string& word = node.text;
  if (word.empty() || word == "~" || word == "null" || word == "Null" || word == "NULL")
    return node;
  if (word == "true" || word == "false") {
    node.kind = Node::Kind::boolean;
    node.boolean = word == "true";
  } else if (const auto integer = integer_of(word)) {
    node.kind = Node::Kind::integer;
    node.integer = *integer;
    node.real = static_cast<double>(*integer);
  } else if (looks_real(word)) {
    set_real(node);
  } else if (is_special_number(word)) {
    throw fmt::format("infinities and NaN are refused, found {}", word);
  } else {
    node.kind = Node::Kind::text;
  }
  return node;
}

Node text_node(std::string text, Place place) {
  Node node;
  node.kind = Node::Kind::text;
  node.text = std::move(text);
  node.place = place;
  return node;
}

Node node_of(const OrderedJson& value) {
  if (value.is_string()) return text_node(value.get<std::string>(), {});
  Node node;
  if (value.is_array() || value.is_object()) {
    node.kind = value.is_array() ? Node::Kind::list : Node::Kind::map;
    for (const auto& [key, item] : value.items()) {
      if (value.is_object()) node.keys.push_back({key, {}});
      node.items.push_back(node_of(item));
    }
    return node;
  }
  return plain_scalar(value.dump(), {});
}

OrderedJson json_of(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return nullptr;
    case Node::Kind::boolean:
      return node.boolean;
    case Node::Kind::integer:
      return node.integer;
    case Node::Kind::real:
      return node.real;
    case Node::Kind::text:
      return node.text;
    case Node::Kind::list:
      break;
    case Node::Kind::map:
      break;
  }
  OrderedJson value = node.is(Node::Kind::list) ? OrderedJson::array() : OrderedJson::object();
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    if (node.is(Node::Kind::list))
      value.push_back(json_of(node.items[i]));
    else
      value[node.keys[i].name] = json_of(node.items[i]);
  }
  return value;
}

std::size_t count_nodes(const Node& node) {
  return std::accumulate(node.items.begin(), node.items.end(), std::size_t{1} + node.keys.size(),
                         [](std::size_t n, const Node& item) { return n + count_nodes(item); });
}

bool any_from_env(const Node& node) {
  return node.from_env || std::any_of(node.items.begin(), node.items.end(), any_from_env);
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "null";
    case Node::Kind::text:
      return node.text.size() > 80 ? fmt::format("a text of {} bytes", node.text.size())
                                   : fmt::format("the text \"{}\"", node.text);
    case Node::Kind::list:
      return "a list";
    case Node::Kind::map:
      return "a map";
    default:
      return node.text;
  }
}

}  // namespace wmtp::config
