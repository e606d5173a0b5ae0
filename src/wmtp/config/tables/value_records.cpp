// The record types of the table.
#include <fmt/format.h>

#include "wmtp/config/tables/value_lists.h"

namespace wmtp::config {
namespace {

// Reports keys of `node` that are not among `names`; false if there are any.
bool only_keys(const Node& node, std::initializer_list<std::string_view> names,
               const Reading& reading) {
  bool good = true;
  for (const NodeKey& key : node.keys) {
    if (std::find(names.begin(), names.end(), key.name) != names.end()) continue;
    reading.problems.add(key.place, reading.row.key + "." + key.name,
                         fmt::format("unknown key; known are {}", fmt::join(names, ", ")));
    good = false;
  }
  return good;
}

const Node* member(const Node& node, std::string_view name) {
  return const_cast<Node&>(node).find(name);
}

const OrderedJson kNumberPair{
    {"type", "array"}, {"items", {{"type", "number"}}}, {"minItems", 2}, {"maxItems", 2}};

}  // namespace

void ValueType<Json>::info(TypeInfo& type) {
  type.name = "map";
}
std::optional<Json> ValueType<Json>::read(const Node& node, const Reading& reading) {
  if (!node.is(Node::Kind::map)) return reading.expected("a map", node);
  return Json(json_of(node));
}
OrderedJson ValueType<Json>::json(const Json& value) {
  return OrderedJson(value);
}
OrderedJson ValueType<Json>::schema(const Row&) {
  return {{"type", "object"}};
}

void ValueType<DifficultyWeights>::info(TypeInfo& type) {
  type.name = "{name: float}";
}
std::optional<DifficultyWeights> ValueType<DifficultyWeights>::read(const Node& node,
                                                                    const Reading& reading) {
  if (!node.is(Node::Kind::map)) return reading.expected("a map of names to weights", node);
  DifficultyWeights weights;
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const auto value = ValueType<double>::read(node.items[i], reading);
    if (!value) return std::nullopt;
    if (*value < 0) return reading.fail(node.items[i], fmt::format("weight {} is below 0", *value));
    weights[node.keys[i].name] = *value;
  }
  return weights;
}
OrderedJson ValueType<DifficultyWeights>::json(const DifficultyWeights& value) {
  OrderedJson map = OrderedJson::object();
  for (const auto& [name, weight] : value) map[name] = weight;
  return map;
}
OrderedJson ValueType<DifficultyWeights>::schema(const Row&) {
  return {{"type", "object"}, {"additionalProperties", {{"type", "number"}, {"minimum", 0}}}};
}

using Bins = std::vector<DifficultyBin>;
void ValueType<Bins>::info(TypeInfo& type) {
  type.name = "{name: [lo, hi]}";
}
std::optional<Bins> ValueType<Bins>::read(const Node& node, const Reading& reading) {
  if (!node.is(Node::Kind::map)) return reading.expected("a map of names to [lo, hi]", node);
  Bins bins;
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const auto ends = read_pair(node.items[i], reading, "[lo, hi]");
    if (!ends) return std::nullopt;
    if ((*ends)[0] > (*ends)[1])
      return reading.fail(node.items[i],
                          fmt::format("lo {} is above hi {}", (*ends)[0], (*ends)[1]));
    bins.push_back({node.keys[i].name, (*ends)[0], (*ends)[1]});
  }
  return bins;
}
OrderedJson ValueType<Bins>::json(const Bins& value) {
  OrderedJson map = OrderedJson::object();
  for (const DifficultyBin& bin : value) map[bin.name] = {bin.lo, bin.hi};
  return map;
}
OrderedJson ValueType<Bins>::schema(const Row&) {
  return {{"type", "object"}, {"additionalProperties", kNumberPair}};
}

using Phases = std::vector<CurriculumPhase>;
void ValueType<Phases>::info(TypeInfo& type) {
  type.name = "[{epoch_range: [a, b], difficulty_weights: {name: float}}]";
}
std::optional<Phases> ValueType<Phases>::read(const Node& node, const Reading& reading) {
  if (!node.is(Node::Kind::list)) return reading.expected("a list of phases", node);
  Phases phases;
  for (const Node& item : node.items) {
    if (!item.is(Node::Kind::map))
      return reading.expected("epoch_range and difficulty_weights", item);
    const Node *range = member(item, "epoch_range"), *weights = member(item, "difficulty_weights");
    if (!only_keys(item, {"epoch_range", "difficulty_weights"}, reading)) return std::nullopt;
    if (!range || !weights)
      return reading.fail(item, "a phase needs both epoch_range and difficulty_weights");
    const auto ends = read_pair(*range, reading, "epoch_range [a, b]");
    auto read = ValueType<DifficultyWeights>::read(*weights, reading);
    if (!ends || !read) return std::nullopt;
    phases.push_back({(*ends)[0], (*ends)[1], std::move(*read)});
  }
  return phases;
}
OrderedJson ValueType<Phases>::json(const Phases& value) {
  OrderedJson list = OrderedJson::array();
  for (const CurriculumPhase& phase : value)
    list.push_back(
        {{"epoch_range", {phase.from_epoch, phase.to_epoch}},
         {"difficulty_weights", ValueType<DifficultyWeights>::json(phase.difficulty_weights)}});
  return list;
}
OrderedJson ValueType<Phases>::schema(const Row& row) {
  return {{"type", "array"},
          {"items",
           {{"type", "object"},
            {"properties",
             {{"epoch_range", kNumberPair},
              {"difficulty_weights", ValueType<DifficultyWeights>::schema(row)}}},
            {"required", {"epoch_range", "difficulty_weights"}},
            {"additionalProperties", false}}}};
}

void ValueType<BestMetric>::info(TypeInfo& type) {
  type.name = "{name: string, mode: min | max}";
}
std::optional<BestMetric> ValueType<BestMetric>::read(const Node& node, const Reading& reading) {
  if (!node.is(Node::Kind::map)) return reading.expected("a map of name and mode", node);
  const Node *name = member(node, "name"), *mode = member(node, "mode");
  if (!only_keys(node, {"name", "mode"}, reading)) return std::nullopt;
  if (!name || !name->is(Node::Kind::text) || name->text.empty() || !mode)
    return reading.fail(node, "needs both name (a metric) and mode (min or max)");
  if (mode->text != "min" && mode->text != "max")
    return reading.fail(*mode, fmt::format("mode: expected min or max, found {}", describe(*mode)));
  return BestMetric{name->text, mode->text == "min" ? MetricMode::min : MetricMode::max};
}
OrderedJson ValueType<BestMetric>::json(const BestMetric& value) {
  return {{"name", value.name}, {"mode", std::string(name_of(value.mode))}};
}
OrderedJson ValueType<BestMetric>::schema(const Row&) {
  return {{"type", "object"},
          {"properties", {{"name", {{"type", "string"}}}, {"mode", {{"enum", {"min", "max"}}}}}},
          {"required", {"name", "mode"}},
          {"additionalProperties", false}};
}

void ValueType<PadTo>::info(TypeInfo& type) {
  type.name = "longest | max_length | int";
}
std::optional<PadTo> ValueType<PadTo>::read(const Node& node, const Reading& reading) {
  if (node.text == "longest") return PadTo{};
  if (node.text == "max_length") return PadTo{PadTo::Kind::max_length, 0};
  if (!node.is(Node::Kind::integer))
    return reading.expected("longest, max_length or an integer", node);
  const auto tokens = ValueType<std::int64_t>::read(node, reading);
  if (!tokens) return std::nullopt;
  return PadTo{PadTo::Kind::tokens, *tokens};
}
OrderedJson ValueType<PadTo>::json(const PadTo& value) {
  if (value.kind == PadTo::Kind::tokens) return value.num_tokens;
  return value.kind == PadTo::Kind::longest ? "longest" : "max_length";
}
OrderedJson ValueType<PadTo>::schema(const Row& row) {
  return {{"anyOf", {{{"enum", {"longest", "max_length"}}}, schema_of_number(row, "integer")}}};
}

void ValueType<ResumeFrom>::info(TypeInfo& type) {
  type.name = "auto | never | path", type.text = type.path = true;
}
std::optional<ResumeFrom> ValueType<ResumeFrom>::read(const Node& node, const Reading& reading) {
  if (!node.is(Node::Kind::text) || node.text.empty())
    return reading.expected("auto, never or a path", node);
  if (node.text == "auto") return ResumeFrom{};
  if (node.text == "never") return ResumeFrom{ResumeFrom::Kind::never, {}};
  return ResumeFrom{ResumeFrom::Kind::path, node.text};
}
OrderedJson ValueType<ResumeFrom>::json(const ResumeFrom& value) {
  if (value.kind == ResumeFrom::Kind::path) return value.path.string();
  return value.kind == ResumeFrom::Kind::automatic ? "auto" : "never";
}
OrderedJson ValueType<ResumeFrom>::schema(const Row&) {
  return {{"type", "string"}, {"minLength", 1}};
}

}  // namespace wmtp::config
