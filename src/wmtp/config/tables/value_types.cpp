#include "wmtp/config/tables/value_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "wmtp/core/suggest.h"

namespace wmtp::config {
namespace {

constexpr double kTwoTo63 = 9223372036854775808.0;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::optional<std::string> bool_hint(const Node& node) {
  const std::string word = lower(node.text);
  if (word == "yes" || word == "on" || word == "y" || word == "true") return "true";
  if (word == "no" || word == "off" || word == "n" || word == "false") return "false";
  return std::nullopt;
}

bool in_range(double value, const Node& node, const Reading& reading) {
  if (reading.row.range.holds(value)) return true;
  reading.fail(
      node, fmt::format("{} is out of range, allowed is {}", node.text, reading.row.range.text()));
  return false;
}

std::optional<std::string> read_text(const Node& node, const Reading& reading, const char* what) {
  if (node.is(Node::Kind::text) || node.loose) return node.text;
  const bool scalar =
      node.is(Node::Kind::integer) || node.is(Node::Kind::real) || node.is(Node::Kind::boolean);
  if (scalar)
    return reading.fail(node,
                        fmt::format("expected {}, found {}; put it in quotes", what, node.text));
  return reading.expected(what, node);
}

}  // namespace

std::nullopt_t Reading::fail(const Node& node, std::string_view fact) const {
  problems.add(node.place, row.key, fact);
  return std::nullopt;
}

std::nullopt_t Reading::expected(std::string_view what, const Node& node) const {
  return fail(node, fmt::format("expected {}, found {}", what, describe(node)));
}

std::optional<std::string> read_choice(const Node& node, const Reading& reading) {
  const auto& choices = reading.row.type.choices;
  if (node.is(Node::Kind::list) || node.is(Node::Kind::map) || node.is(Node::Kind::null))
    return reading.expected(fmt::format("one of {}", fmt::join(choices, ", ")), node);
  std::string word = node.text;
  for (const auto& [accepted, main] : reading.row.spellings)
    if (word == accepted) word = main;
  for (const std::string& choice : choices)
    if (word == choice || (reading.row.any_case && lower(word) == lower(choice))) return choice;
  std::string fact =
      fmt::format("expected one of {}, found {}", fmt::join(choices, ", "), describe(node));
  if (const auto near = nearest(word, choices))
    fact += fmt::format("; did you mean \"{}\"?", *near);
  return reading.fail(node, fact);
}

OrderedJson schema_of_choices(const Row& row) {
  OrderedJson values = OrderedJson::array();
  for (const std::string& choice : row.type.choices) {
    if (choice == "true" || choice == "false")
      values.push_back(choice == "true");
    else
      values.push_back(choice);
  }
  for (const auto& [accepted, main] : row.spellings) {
    if (accepted == "true" || accepted == "false")
      values.push_back(accepted == "true");
    else
      values.push_back(accepted);
  }
  return {{"enum", values}};
}

OrderedJson schema_of_number(const Row& row, const char* type) {
  OrderedJson schema{{"type", type}};
  const Range& range = row.range;
  if (std::isfinite(range.lo)) schema[range.lo_open ? "exclusiveMinimum" : "minimum"] = range.lo;
  if (std::isfinite(range.hi)) schema[range.hi_open ? "exclusiveMaximum" : "maximum"] = range.hi;
  return schema;
}

void ValueType<bool>::info(TypeInfo& type) {
  type.name = "bool";
}
std::optional<bool> ValueType<bool>::read(const Node& node, const Reading& reading) {
  if (node.is(Node::Kind::boolean)) return node.boolean;
  const auto hint = bool_hint(node);
  return reading.fail(node, fmt::format("expected true or false, found {}{}", describe(node),
                                        hint ? "; write " + *hint : ""));
}
OrderedJson ValueType<bool>::json(const bool& value) {
  return value;
}
OrderedJson ValueType<bool>::schema(const Row&) {
  return {{"type", "boolean"}};
}

void ValueType<std::int64_t>::info(TypeInfo& type) {
  type.name = "int";
}
std::optional<std::int64_t> ValueType<std::int64_t>::read(const Node& node,
                                                          const Reading& reading) {
  std::int64_t value = node.integer;
  if (node.is(Node::Kind::real)) {
    if (std::abs(node.real) >= kTwoTo63)
      return reading.fail(node, fmt::format("{} is beyond 64 bits", node.text));
    if (node.real != std::floor(node.real)) return reading.expected("an integer", node);
    value = static_cast<std::int64_t>(node.real);
  } else if (!node.is(Node::Kind::integer)) {
    return reading.expected("an integer", node);
  }
  if (!in_range(static_cast<double>(value), node, reading)) return std::nullopt;
  return value;
}
OrderedJson ValueType<std::int64_t>::json(const std::int64_t& value) {
  return value;
}
OrderedJson ValueType<std::int64_t>::schema(const Row& row) {
  return schema_of_number(row, "integer");
}

void ValueType<double>::info(TypeInfo& type) {
  type.name = "float";
}
std::optional<double> ValueType<double>::read(const Node& node, const Reading& reading) {
  if (!node.is(Node::Kind::integer) && !node.is(Node::Kind::real))
    return reading.expected("a number", node);
  if (!in_range(node.real, node, reading)) return std::nullopt;
  return node.real;
}
OrderedJson ValueType<double>::json(const double& value) {
  return value;
}
OrderedJson ValueType<double>::schema(const Row& row) {
  return schema_of_number(row, "number");
}

void ValueType<std::string>::info(TypeInfo& type) {
  type.name = "string", type.text = true;
}
std::optional<std::string> ValueType<std::string>::read(const Node& node, const Reading& reading) {
  return read_text(node, reading, "a string");
}
OrderedJson ValueType<std::string>::json(const std::string& value) {
  return value;
}
OrderedJson ValueType<std::string>::schema(const Row&) {
  return {{"type", "string"}};
}

using std::filesystem::path;
void ValueType<path>::info(TypeInfo& type) {
  type.name = "path", type.text = type.path = true;
}
std::optional<path> ValueType<path>::read(const Node& node, const Reading& reading) {
  const auto text = read_text(node, reading, "a path");
  if (!text) return std::nullopt;
  if (text->empty()) return reading.fail(node, "expected a path, found an empty text");
  return path(*text);
}
OrderedJson ValueType<path>::json(const path& value) {
  return value.string();
}
OrderedJson ValueType<path>::schema(const Row&) {
  return {{"type", "string"}, {"minLength", 1}};
}

void ValueType<ModelLocation>::info(TypeInfo& type) {
  type.name = "model", type.text = type.path = true;
}
std::optional<ModelLocation> ValueType<ModelLocation>::read(const Node& node,
                                                            const Reading& reading) {
  auto text = read_text(node, reading, "a model folder or name");
  if (!text) return std::nullopt;
  if (text->empty())
    return reading.fail(node, "expected a model folder or name, found an empty text");
  return ModelLocation{std::move(*text)};
}
OrderedJson ValueType<ModelLocation>::json(const ModelLocation& value) {
  return value.text;
}
OrderedJson ValueType<ModelLocation>::schema(const Row&) {
  return {{"type", "string"}, {"minLength", 1}};
}

}  // namespace wmtp::config
