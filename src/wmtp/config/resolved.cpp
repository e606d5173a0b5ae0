// What a resolved configuration can say about itself: text, hashes, differences.
#include <fmt/format.h>

#include <map>

#include "wmtp/config/canonical.h"
#include "wmtp/config/interpolate.h"
#include "wmtp/config/load.h"
#include "wmtp/core/checksum.h"

namespace wmtp::config {
namespace {

std::string comparable(const ResolvedKey& key) {
  const std::string text = canonical_json(key.value);
  return key.digest.empty() ? text : text + " #" + key.digest;
}

template <class Keep>
std::string hash_of(const std::vector<ResolvedKey>& keys, Keep keep) {
  std::map<std::string, std::string> sorted;
  for (const ResolvedKey& key : keys)
    if (keep(key))
      sorted[key.key] = key.digest.empty() ? comparable(key) : canonical_json(comparable(key));
  std::string text = "{";
  for (const auto& [key, value] : sorted)
    text += (text.size() > 1 ? "," : "") + canonical_json(key) + ":" + value;
  return sha256_hex(text + "}");
}

std::vector<std::string> parts_of(const std::string& key) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= key.size();) {
    const std::size_t dot = std::min(key.find('.', start), key.size());
    parts.push_back(key.substr(start, dot - start));
    start = dot + 1;
  }
  return parts;
}

}  // namespace

std::string ResolvedConfig::hash() const {
  return hash_of(keys, [](const ResolvedKey& key) { return key.resume != ResumeClass::host; });
}

std::string ResolvedConfig::agreement_hash() const {
  return hash_of(keys, [](const ResolvedKey& key) { return key.agreed; });
}

std::string ResolvedConfig::to_yaml(bool origins) const {
  std::string text;
  std::vector<std::string> open;  // sections the last line stands in
  for (const ResolvedKey& key : keys) {
    const std::vector<std::string> parts = parts_of(key.key);
    std::size_t depth = 0;
    while (depth + 1 < parts.size() && depth < open.size() && open[depth] == parts[depth]) ++depth;
    open.resize(depth);
    for (; depth + 1 < parts.size(); ++depth) {
      text += fmt::format("{:{}}{}:\n", "", 2 * depth, parts[depth]);
      open.push_back(parts[depth]);
    }
    std::string line =
        fmt::format("{:{}}{}: {}", "", 2 * depth, parts[depth],
                    yaml_text(key.digest.empty() ? escape_all_references(key.value) : key.value));
    if (origins) line = fmt::format("{:<50} # {}", line, key.origin);
    text += line + "\n";
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> ResolvedConfig::flat() const {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const ResolvedKey& key : keys)
    if (key.agreed) pairs.emplace_back(key.key, comparable(key));
  return pairs;
}

std::vector<std::string> differences(const ResolvedConfig& a, const ResolvedConfig& b) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < a.keys.size(); ++i) {
    const std::string before = comparable(a.keys[i]), after = comparable(b.keys[i]);
    if (before != after) lines.push_back(fmt::format("{}: {} -> {}", a.keys[i].key, before, after));
  }
  return lines;
}

}  // namespace wmtp::config
