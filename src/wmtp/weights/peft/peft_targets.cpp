#include "wmtp/weights/peft/peft_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

namespace wmtp::weights {
namespace {

constexpr const char* kAllLinear = "all-linear";

bool names_module(const std::vector<std::string>& ends, std::string_view module) {
  return std::ranges::any_of(ends,
                             [&](const std::string& end) { return module.ends_with("." + end); });
}

}  // namespace

PeftTargets::PeftTargets(const PeftConfig& config, std::string_view origin) : config_(config) {
  const auto place = [&](const char* key) { return fmt::format("{}: {}", origin, key); };
  if (!config.target_pattern.empty() && config.target_pattern != kAllLinear)
    target_.emplace_back(config.target_pattern, place("target_modules"));
  if (!config.exclude_pattern.empty())
    exclude_.emplace_back(config.exclude_pattern, place("exclude_modules"));
  // Without a pattern any numbered list of modules will do.
  if (config.layers_pattern.empty())
    layers_.emplace_back(R"(.*?\.[^.]*\.(?P<idx>\d+)\.)", place("layers_pattern"));
  for (const std::string& pattern : config.layers_pattern)
    layers_.emplace_back(fmt::format(R"((?:^|.*?\.){}\.(?P<idx>\d+)\.)", pattern),
                         place("layers_pattern"));
  // A key is the end of a name, from a dot on.
  const auto ends_in = [](const std::string& key) { return fmt::format(R"((.*\.)?({})$)", key); };
  for (const auto& [key, rank] : config.rank_pattern)
    ranks_.emplace_back(PythonRegex(ends_in(key), place("rank_pattern")), rank);
  for (const auto& [key, alpha] : config.alpha_pattern)
    alphas_.emplace_back(PythonRegex(ends_in(key), place("alpha_pattern")), alpha);
}

bool PeftTargets::is_excluded(std::string_view module) const {
  if (!exclude_.empty()) return exclude_.front().fullmatch(module);
  return std::ranges::find(config_.excluded, module) != config_.excluded.end() ||
         names_module(config_.excluded, module);
}

// A full name in the list counts in any layer.
bool PeftTargets::is_targeted(std::string_view module) const {
  if (config_.target_pattern == kAllLinear) return true;
  if (!target_.empty()) return target_.front().fullmatch(module);
  if (std::ranges::find(config_.targets, module) != config_.targets.end()) return true;
  return names_module(config_.targets, module) && is_in_layers(module);
}

bool PeftTargets::is_in_layers(std::string_view module) const {
  if (config_.layers.empty()) return true;
  for (const PythonRegex& pattern : layers_) {
    const std::optional<std::string> digits = pattern.match_group(module, "idx");
    if (!digits) continue;
    std::int64_t index = std::numeric_limits<std::int64_t>::min();  // of no layer
    std::from_chars(digits->data(), digits->data() + digits->size(), index);
    return std::ranges::find(config_.layers, index) != config_.layers.end();
  }
  return false;
}

bool PeftTargets::adapts(std::string_view module) const {
  return !is_excluded(module) && is_targeted(module);
}

// The first key that fits counts.
std::int64_t PeftTargets::rank(std::string_view module) const {
  for (const auto& [pattern, rank] : ranks_)
    if (pattern.match(module)) return rank;
  return config_.rank;
}

double PeftTargets::alpha(std::string_view module) const {
  for (const auto& [pattern, alpha] : alphas_)
    if (pattern.match(module)) return alpha;
  return config_.alpha;
}

}  // namespace wmtp::weights
