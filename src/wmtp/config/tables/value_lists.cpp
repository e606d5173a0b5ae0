// The list types of the table.
#include "wmtp/config/tables/value_lists.h"

namespace wmtp::config {

void ValueType<FloatPair>::info(TypeInfo& type) {
  type.name = "[float, float]";
}
std::optional<FloatPair> ValueType<FloatPair>::read(const Node& node, const Reading& reading) {
  return read_pair(node, reading, "a list of two numbers");
}
OrderedJson ValueType<FloatPair>::json(const FloatPair& value) {
  return {value[0], value[1]};
}
OrderedJson ValueType<FloatPair>::schema(const Row& row) {
  return {{"type", "array"},
          {"items", schema_of_number(row, "number")},
          {"minItems", 2},
          {"maxItems", 2}};
}

using Strings = std::vector<std::string>;
void ValueType<Strings>::info(TypeInfo& type) {
  type.name = "[string]", type.text_items = true;
}
std::optional<Strings> ValueType<Strings>::read(const Node& node, const Reading& reading) {
  return read_list<std::string>(node, reading, "a list of strings");
}
OrderedJson ValueType<Strings>::json(const Strings& value) {
  return json_list(value);
}
OrderedJson ValueType<Strings>::schema(const Row& row) {
  return schema_list<std::string>(row);
}

using Integers = std::vector<std::int64_t>;
void ValueType<Integers>::info(TypeInfo& type) {
  type.name = "[int]";
}
std::optional<Integers> ValueType<Integers>::read(const Node& node, const Reading& reading) {
  return read_list<std::int64_t>(node, reading, "a list of integers");
}
OrderedJson ValueType<Integers>::json(const Integers& value) {
  return json_list(value);
}
OrderedJson ValueType<Integers>::schema(const Row& row) {
  return schema_list<std::int64_t>(row);
}

using Paths = std::vector<std::filesystem::path>;
void ValueType<Paths>::info(TypeInfo& type) {
  type.name = "path | [path]", type.path = type.text_items = true;
}
std::optional<Paths> ValueType<Paths>::read(const Node& node, const Reading& reading) {
  if (node.is(Node::Kind::list)) {
    if (node.items.empty())
      return reading.fail(node, "expected at least one path, found an empty list");
    return read_list<std::filesystem::path>(node, reading, "a path or a list of paths");
  }
  if (node.is(Node::Kind::map) || node.is(Node::Kind::null))
    return reading.expected("a path or a list of paths", node);
  auto one = ValueType<std::filesystem::path>::read(node, reading);
  if (!one) return std::nullopt;
  return Paths{std::move(*one)};
}
OrderedJson ValueType<Paths>::json(const Paths& value) {
  return json_list(value);
}
OrderedJson ValueType<Paths>::schema(const Row&) {
  const OrderedJson one{{"type", "string"}, {"minLength", 1}};
  return {{"anyOf", {one, {{"type", "array"}, {"items", one}, {"minItems", 1}}}}};
}

void ValueType<ConsoleRanks>::info(TypeInfo& type) {
  type.name = "[int] | all";
}
std::optional<ConsoleRanks> ValueType<ConsoleRanks>::read(const Node& node,
                                                          const Reading& reading) {
  if (node.text == "all") return ConsoleRanks{true, {}};
  auto ranks = read_list<std::int64_t>(node, reading, "a list of ranks, or all");
  if (!ranks) return std::nullopt;
  return ConsoleRanks{false, std::move(*ranks)};
}
OrderedJson ValueType<ConsoleRanks>::json(const ConsoleRanks& value) {
  if (value.all) return "all";
  return json_list(value.ranks);
}
OrderedJson ValueType<ConsoleRanks>::schema(const Row& row) {
  return {{"anyOf", {{{"const", "all"}}, schema_list<std::int64_t>(row)}}};
}

}  // namespace wmtp::config
