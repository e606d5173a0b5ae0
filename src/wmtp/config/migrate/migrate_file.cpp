#include <fmt/format.h>

#include "wmtp/config/layers.h"
#include "wmtp/config/migrate/checked.h"
#include "wmtp/config/migrate/migration.h"
#include "wmtp/config/migrate/rewriter.h"
#include "wmtp/config/yaml/yaml_reader.h"
#include "wmtp/core/file.h"

namespace wmtp::config {
namespace {

namespace fs = std::filesystem;

Node empty_map() {
  Node map;
  map.kind = Node::Kind::map;
  return map;
}

// A file as a map; problems are collected.
Node read_map(const fs::path& path, int source, Problems& problems) {
  const std::string text = read_file(path, YamlLimits::kBytes, ErrorKind::config);
  const std::optional<Node> root = read_yaml(text, source, problems);
  if (!root || root->is(Node::Kind::null)) return empty_map();
  if (root->is(Node::Kind::map)) return *root;
  problems.add(root->place, "",
               fmt::format("expected a map of sections, found {}", describe(*root)));
  return empty_map();
}

// Maps merge key by key, lists and scalars replace, as OmegaConf merges two files.
void merge(Node& below, const Node& above) {
  for (std::size_t i = 0; i < above.keys.size(); ++i) {
    Node* there = below.find(above.keys[i].name);
    if (there && there->is(Node::Kind::map) && above.items[i].is(Node::Kind::map)) {
      merge(*there, above.items[i]);
      continue;
    }
    if (there) {
      below.keys[static_cast<std::size_t>(there - below.items.data())] = above.keys[i];
      *there = above.items[i];
      continue;
    }
    below.keys.push_back(above.keys[i]);
    below.items.push_back(above.items[i]);
  }
}

}  // namespace

Migration migrate_file(const MigrateRequest& request) {
  LoadRequest layers;
  layers.file = request.file;
  layers.defaults = request.defaults;
  const fs::path below = find_defaults(layers);
  Problems problems;
  int below_source = Rewriter::kNoSource;
  Node old = empty_map();
  if (!below.empty()) {
    below_source = problems.add_file(below.string());
    old = read_map(below, below_source, problems);
  }
  const int source = problems.add_file(request.file.string());
  merge(old, read_map(request.file, source, problems));
  problems.throw_if_any();

  Rewriter rewriter(old, problems, below_source);
  rewriter.take_map(old, "", "");
  rewriter.finish();
  const std::vector<std::string> head{fmt::format(
      "Migrated from {}{}; docs/migration.md says what became of its keys.",
      request.file.filename().string(), below.empty() ? "" : " upon " + below.filename().string())};
  Migration migration = checked(rewriter, head, problems.locate({source, 0, 0}), request.env);
  migration.below = below;
  return migration;
}

}  // namespace wmtp::config
