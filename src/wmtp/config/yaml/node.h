// A value as a file or an override gave it, with the place it came from.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/core/json.h"

namespace wmtp::config {

// Where something stands. `source` counts files and overrides in the order they are applied; -1 is
// the program itself (built-in defaults).
struct Place {
  int source = -1;
  int line = 0, column = 0;  // from 1; 0 = the whole source
};

struct NodeKey {
  std::string name;
  Place place;
};

struct Node {
  enum class Kind { null, boolean, integer, real, text, list, map };

  Kind kind = Kind::null;
  Place place;
  std::string text;           // of a scalar: as written, unquoted
  bool boolean = false;       // of Kind::boolean
  std::int64_t integer = 0;   // of Kind::integer
  double real = 0;            // of Kind::integer and Kind::real
  bool from_env = false;      // some of it is a value of the environment
  bool bad = false;           // could not be read; already reported
  bool loose = false;         // one whole environment value: text or number, as the key wants it
  std::vector<NodeKey> keys;  // of a map, beside items
  std::vector<Node> items;    // of a list or map

  bool is(Kind wanted) const { return kind == wanted; }
  Node* find(std::string_view key);
};

// YAML 1.2 core types of an unquoted scalar; throws std::string (the fact) for infinities, NaN and
// numbers beyond a double.
Node plain_scalar(std::string text, Place place);
Node text_node(std::string text, Place place);
Node node_of(const OrderedJson& value);
OrderedJson json_of(const Node& node);
std::size_t count_nodes(const Node& node);
bool any_from_env(const Node& node);

std::string describe(const Node& node);  // for messages: `the text "yes"`, `1.5`, `a list`

}  // namespace wmtp::config
