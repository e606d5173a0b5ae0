// Lists of one value type, shared by the list and record types.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "wmtp/config/tables/value_types.h"

namespace wmtp::config {

template <class T>
std::optional<std::vector<T>> read_list(const Node& node, const Reading& reading,
                                        const char* what) {
  if (!node.is(Node::Kind::list)) return reading.expected(what, node);
  std::vector<T> values;
  bool good = true;
  for (const Node& item : node.items) {
    auto value = ValueType<T>::read(item, reading);
    good = good && value;
    if (value) values.push_back(std::move(*value));
  }
  if (!good) return std::nullopt;
  return values;
}

template <class T>
OrderedJson json_list(const std::vector<T>& values) {
  OrderedJson list = OrderedJson::array();
  for (const T& value : values) list.push_back(ValueType<T>::json(value));
  return list;
}

template <class T>
OrderedJson schema_list(const Row& row) {
  return {{"type", "array"}, {"items", ValueType<T>::schema(row)}};
}

inline std::optional<FloatPair> read_pair(const Node& node, const Reading& reading,
                                          const char* what) {
  if (!node.is(Node::Kind::list) || node.items.size() != 2) return reading.expected(what, node);
  const auto a = ValueType<double>::read(node.items[0], reading);
  const auto b = ValueType<double>::read(node.items[1], reading);
  if (!a || !b) return std::nullopt;
  return FloatPair{*a, *b};
}

}  // namespace wmtp::config
