// How each member type of Config is read from a node, checked, written as JSON and described.
// Adding a type: a ValueType specialisation here, its body in value_types.cpp or value_records.cpp.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "wmtp/config/tables/schema.h"

namespace wmtp::config {

// What a value is read against; collects problems under the row's key.
struct Reading {
  const Row& row;
  Problems& problems;
  std::nullopt_t fail(const Node& node, std::string_view fact) const;
  std::nullopt_t expected(std::string_view what, const Node& node) const;
};

template <class T>
struct ValueType;  // name(), info(TypeInfo&), read(node, reading), json(value), schema(row)

std::optional<std::string> read_choice(const Node& node, const Reading& reading);
OrderedJson schema_of_choices(const Row& row);
OrderedJson schema_of_number(const Row& row, const char* type);

#define WMTP_VALUE_TYPE(T)                                                  \
  template <>                                                               \
  struct ValueType<T> {                                                     \
    static void info(TypeInfo& type);                                       \
    static std::optional<T> read(const Node& node, const Reading& reading); \
    static OrderedJson json(const T& value);                                \
    static OrderedJson schema(const Row& row);                              \
  }
WMTP_VALUE_TYPE(bool);
WMTP_VALUE_TYPE(std::int64_t);
WMTP_VALUE_TYPE(double);
WMTP_VALUE_TYPE(std::string);
WMTP_VALUE_TYPE(std::filesystem::path);
WMTP_VALUE_TYPE(ModelLocation);
WMTP_VALUE_TYPE(Json);
WMTP_VALUE_TYPE(PadTo);
WMTP_VALUE_TYPE(ResumeFrom);
WMTP_VALUE_TYPE(ConsoleRanks);
WMTP_VALUE_TYPE(BestMetric);
WMTP_VALUE_TYPE(DifficultyWeights);
WMTP_VALUE_TYPE(std::vector<DifficultyBin>);
WMTP_VALUE_TYPE(std::vector<CurriculumPhase>);
WMTP_VALUE_TYPE(std::vector<std::string>);
WMTP_VALUE_TYPE(std::vector<std::int64_t>);
WMTP_VALUE_TYPE(std::vector<std::filesystem::path>);
using FloatPair = std::array<double, 2>;
WMTP_VALUE_TYPE(FloatPair);
#undef WMTP_VALUE_TYPE

template <NamedEnum E>
struct ValueType<E> {
  static void info(TypeInfo& type) {
    for (const std::string_view name : EnumNames<E>::names) type.choices.emplace_back(name);
    for (const std::string& name : type.choices)
      type.name += (type.name.empty() ? "" : " | ") + name;
  }
  static std::optional<E> read(const Node& node, const Reading& reading) {
    const auto name = read_choice(node, reading);
    if (!name) return std::nullopt;
    for (std::size_t i = 0; i < EnumNames<E>::names.size(); ++i)
      if (EnumNames<E>::names[i] == *name) return static_cast<E>(i);
    return std::nullopt;
  }
  static OrderedJson json(E value) { return std::string(name_of(value)); }
  static OrderedJson schema(const Row& row) { return schema_of_choices(row); }
};

template <class T>
struct ValueType<std::optional<T>> {
  static void info(TypeInfo& type) {
    ValueType<T>::info(type);
    type.nullable = true;
    type.name += " or null";
  }
  static std::optional<std::optional<T>> read(const Node& node, const Reading& reading) {
    std::optional<std::optional<T>> result;
    if (node.is(Node::Kind::null) && !node.loose)
      result.emplace();
    else if (auto value = ValueType<T>::read(node, reading))
      result.emplace(std::move(value));
    return result;
  }
  static OrderedJson json(const std::optional<T>& value) {
    return value ? ValueType<T>::json(*value) : OrderedJson(nullptr);
  }
  static OrderedJson schema(const Row& row) {
    return {{"anyOf", {ValueType<T>::schema(row), {{"type", "null"}}}}};
  }
};

}  // namespace wmtp::config
