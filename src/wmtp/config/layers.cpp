#include "wmtp/config/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "wmtp/config/key_path.h"
#include "wmtp/config/old_keys.h"
#include "wmtp/config/yaml/yaml_reader.h"
#include "wmtp/core/file.h"

namespace wmtp::config {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMaxExtends = 4;

// One map of one source: where each row was written, to catch a key and its alias side by side.
class MapApplier {
 public:
  MapApplier(Layers& layers, Problems& problems) : layers_(layers), problems_(problems) {}

  void apply(const Node& map, const std::string& prefix) {
    for (std::size_t i = 0; i < map.keys.size(); ++i) {
      const NodeKey& key = map.keys[i];
      const std::string path = prefix.empty() ? key.name : prefix + "." + key.name;
      const std::string main = main_name(path);
      if (key.name.find('.') != key.name.npos)
        problems_.add(key.place, path, dotted_fact(main));
      else if (const Row* row = schema().find(main))
        set(*row, path, key, map.items[i]);
      else if (const std::string advice = replacement_of_removed(path); !advice.empty())
        problems_.add(key.place, path, "no longer a key; " + advice);
      else if (!schema().is_section(main))
        problems_.add(key.place, path, unknown_key_fact(path));
      else if (map.items[i].is(Node::Kind::map))
        apply(map.items[i], path);
      else
        problems_.add(map.items[i].place, path,
                      fmt::format("expected a map of keys, found {}", describe(map.items[i])));
    }
  }

 private:
  static std::string dotted_fact(const std::string& main) {
    if (!schema().find(main) && !schema().is_section(main)) return "unknown key";
    return "a key with dots is for --override only; write it nested";
  }

  void set(const Row& row, const std::string& path, const NodeKey& key, const Node& value) {
    const auto [first, fresh] = written_as_.emplace(row.key, path);
    if (!fresh) {
      problems_.add(key.place, path, fmt::format("the same key is given as {}", first->second));
      return;
    }
    if (implies_gae(path)) layers_.gae_implied = true;
    std::optional<Node>& slot = layers_.written[schema().index(row)];
    if (slot && slot->is(Node::Kind::map) && value.is(Node::Kind::map))
      merge(*slot, value);
    else
      slot = value;
  }

  static void merge(Node& into, const Node& from) {
    into.place = from.place;
    for (std::size_t i = 0; i < from.keys.size(); ++i) {
      if (Node* old = into.find(from.keys[i].name)) {
        *old = from.items[i];
        continue;
      }
      into.keys.push_back(from.keys[i]);
      into.items.push_back(from.items[i]);
    }
  }

  Layers& layers_;
  Problems& problems_;
  std::map<std::string, std::string> written_as_;
};

class FileReader {
 public:
  FileReader(Layers& layers, Problems& problems) : layers_(layers), problems_(problems) {}

  int read(const fs::path& path) {
    return read(path, [&path] { return text_of(path); });
  }

  // `path` names the text in messages, and what it extends is looked for beside it.
  template <class Text>
  int read(const fs::path& path, Text&& text) {
    const int source = problems_.add_file(path.string());
    const std::optional<Node> root = parse(path, text, source);
    if (!root) {
      layers_.broken = true;
      return source;
    }
    if (root->is(Node::Kind::null)) return source;
    if (!root->is(Node::Kind::map)) {
      problems_.add(root->place, "",
                    fmt::format("expected a map of sections, found {}", describe(*root)));
      return source;
    }
    Node body = *root;
    open_.push_back(fs::weakly_canonical(path));
    extend(body, path);
    open_.pop_back();
    MapApplier(layers_, problems_).apply(body, "");
    return source;
  }

 private:
  static std::string text_of(const fs::path& path) {
    return read_file(path, YamlLimits::kBytes, ErrorKind::config);
  }

  template <class Text>
  std::optional<Node> parse(const fs::path& path, Text&& text, int source) {
    try {
      std::optional<Node> root = read_yaml(text(), source, problems_);
      if (!root && asked_by_)
        problems_.add(*asked_by_, "extends", fmt::format("{} has errors", path.string()));
      return root;
    } catch (const Error& error) {
      if (asked_by_)
        problems_.add(*asked_by_, "extends", error.fact());
      else
        problems_.add({source, 0, 0}, "", error.fact());
      return std::nullopt;
    }
  }

  // Takes `extends` out of `body` and reads the files it names first.
  void extend(Node& body, const fs::path& path) {
    Node* found = body.find("extends");
    if (!found) return;
    const Node value = *found;
    const auto at = found - body.items.data();
    body.items.erase(body.items.begin() + at);
    body.keys.erase(body.keys.begin() + at);
    std::vector<Node> names = value.is(Node::Kind::list) ? value.items : std::vector<Node>{value};
    for (const Node& name : names) {
      if (!name.is(Node::Kind::text) || name.text.empty()) {
        problems_.add(name.place, "extends",
                      fmt::format("expected a path, found {}", describe(name)));
        continue;
      }
      follow(path.parent_path() / name.text, name.place);
    }
  }

  void follow(const fs::path& next, Place place) {
    if (std::find(open_.begin(), open_.end(), fs::weakly_canonical(next)) != open_.end()) {
      problems_.add(place, "extends", fmt::format("{} extends itself", next.string()));
    } else if (open_.size() > kMaxExtends) {
      problems_.add(place, "extends", fmt::format("more than {} files deep", kMaxExtends));
    } else {
      const std::optional<Place> outer = std::exchange(asked_by_, place);
      read(next);
      asked_by_ = outer;
    }
  }

  Layers& layers_;
  Problems& problems_;
  std::vector<fs::path> open_;     // the chain of files being read
  std::optional<Place> asked_by_;  // where the file being read is named; none: on the command line
};

}  // namespace

void apply_map(const Node& map, const std::string& prefix, Layers& layers, Problems& problems) {
  MapApplier(layers, problems).apply(map, prefix);
}

fs::path find_defaults(const LoadRequest& request) {
  if (request.defaults)
    return *request.defaults == "none" ? fs::path() : fs::path(*request.defaults);
  const fs::path folder = request.file.parent_path();
  for (const fs::path& candidate :
       {folder / "defaults.yaml", folder / ".." / "defaults.yaml", request.installed_defaults}) {
    std::error_code ignored;
    if (!candidate.empty() && fs::is_regular_file(candidate, ignored))
      return fs::equivalent(candidate, request.file, ignored) ? fs::path()
                                                              : candidate.lexically_normal();
  }
  return {};
}

Layers read_layers(const LoadRequest& request, Problems& problems) {
  Layers layers;
  FileReader files(layers, problems);
  if (const fs::path defaults = find_defaults(request); !defaults.empty()) files.read(defaults);
  const int stage = request.text ? files.read(request.file, [&] { return *request.text; })
                                 : files.read(request.file);
  layers.stage_file = {stage, 0, 0};
  for (std::size_t i = 0; i < request.overrides.size(); ++i)
    apply_override(request.overrides[i], fmt::format("--override {}", i + 1), layers, problems);
  for (const auto& [flag, text] : request.flags) apply_override(text, flag, layers, problems);
  return layers;
}

}  // namespace wmtp::config
