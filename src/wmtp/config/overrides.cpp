#include <fmt/format.h>

#include "wmtp/config/key_path.h"
#include "wmtp/config/layers.h"
#include "wmtp/config/yaml/yaml_reader.h"

namespace wmtp::config {
namespace {

void move_to(Node& node, Place place) {
  node.place = place;
  for (NodeKey& key : node.keys) key.place = place;
  for (Node& item : node.items) move_to(item, place);
}

// A string key takes the text as it stands, so `experiment.name=007` keeps its zeros.
bool takes_text(const KeyTarget& target) {
  if (!target.row) return false;
  return target.rest.empty() ? target.row->type.text
                             : target.rest.size() == 1 && target.row->type.text_items;
}

std::optional<Node> read_value(const KeyTarget& target, const std::string& text, Place place,
                               Problems& problems) {
  if (takes_text(target) && !(target.row->type.nullable && target.rest.empty() && text == "null"))
    return text_node(text, place);
  std::optional<Node> value = read_yaml(text, place.source, problems);
  if (value) move_to(*value, place);
  return value;
}

}  // namespace

void apply_override(const std::string& text, std::string flag, Layers& layers, Problems& problems) {
  const Place place{problems.add_override(std::move(flag)), 0, 0};
  const std::size_t equals = text.find('=');
  if (equals == text.npos) {
    problems.add(place, "", fmt::format("\"{}\" has no \"=\"; write key.path=value", text));
    return;
  }
  const std::string path = text.substr(0, equals);
  std::string fact;
  const std::optional<KeyTarget> target = find_target(path, fact);
  if (!target) {
    problems.add(place, path, fact);
    return;
  }
  std::optional<Node> value = read_value(*target, text.substr(equals + 1), place, problems);
  if (!value) return;
  if (target->rest.empty() && target->row && value->is(Node::Kind::map)) {
    layers.written[schema().index(*target->row)] = std::move(*value);
  } else if (target->rest.empty()) {
    Node map;  // as if a file held this one key, so that sections, aliases and checks are the same
    map.kind = Node::Kind::map;
    const std::string name = main_name(path) == target->path ? path : target->path;
    const std::size_t dot = name.rfind('.');
    map.keys.push_back({name.substr(dot == name.npos ? 0 : dot + 1), place});
    map.items.push_back(std::move(*value));
    apply_map(map, dot == name.npos ? "" : name.substr(0, dot), layers, problems);
  } else {
    std::optional<Node>& slot = layers.written[schema().index(*target->row)];
    if (!slot) slot = node_of(schema().default_of(*target->row));
    Node* node = walk(*slot, target->rest, true, fact);
    if (!node) {
      problems.add(place, path, fact);
      return;
    }
    *node = std::move(*value);
    slot->place = place;
  }
}

}  // namespace wmtp::config
