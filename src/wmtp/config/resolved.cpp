// What a resolved configuration can say about itself: text, hashes, differences.
#include <fmt/format.h>

#include <map>

#include "wmtp/config/canonical.h"
#include "wmtp/config/interpolate.h"
#include "wmtp/config/load.h"
#include "wmtp/config/nested_lines.h"
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

}  // namespace

std::string ResolvedConfig::hash() const {
  return hash_of(keys, [](const ResolvedKey& key) { return key.resume != ResumeClass::host; });
}

std::string ResolvedConfig::agreement_hash() const {
  return hash_of(keys, [](const ResolvedKey& key) { return key.agreed; });
}

std::string ResolvedConfig::to_yaml(bool origins) const {
  std::string text;
  NestedLines nested;
  for (const ResolvedKey& key : keys) {
    std::vector<std::string> lines = nested.add(
        key.key, yaml_text(key.digest.empty() ? escape_all_references(key.value) : key.value));
    if (origins) lines.back() = fmt::format("{:<50} # {}", lines.back(), key.origin);
    for (const std::string& line : lines) text += line + "\n";
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
