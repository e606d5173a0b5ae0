// The YAML subset of configuration files, read within fixed limits: 1 MiB, depth 32, 10,000 nodes
// after alias expansion, 100 aliases; no recursive aliases, tags, merge keys, duplicate keys,
// further documents, NaN or infinities. yaml-cpp tokenises; limits hold before and while it does.
#pragma once
#include <optional>
#include <string_view>

#include "wmtp/config/yaml/node.h"
#include "wmtp/config/yaml/problems.h"

namespace wmtp::config {

struct YamlLimits {
  static constexpr std::size_t kBytes = std::size_t{1} << 20;
  static constexpr std::size_t kDepth = 32;
  static constexpr std::size_t kNodes = 10'000;
  static constexpr std::size_t kAliases = 100;
};

// The document in `text` (an empty one is null). A syntax error or a broken limit is added to
// `problems` and ends the text (no value); duplicate keys and bad scalars are added and reading
// goes on.
std::optional<Node> read_yaml(std::string_view text, int source, Problems& problems);

}  // namespace wmtp::config
