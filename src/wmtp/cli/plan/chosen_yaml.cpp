#include "wmtp/cli/plan/chosen_yaml.h"

#include <fmt/format.h>

#include <array>
#include <set>

#include "wmtp/config/commented.h"
#include "wmtp/config/yaml/problems.h"

namespace wmtp::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> kBatchKeys = {
    "training.batch_size", "training.gradient_accumulation_steps", "training.global_batch_size"};

std::string chosen_fact(const PlanResult& result, const std::string& key) {
  const run::SizedRun& run = result.chosen->run;
  if (key == "distributed.fsdp.activation_checkpointing" || key == "training.batch_size")
    return fmt::format("{:.2f} GiB of {:.2f} GiB a rank.", as_gib(run.needed_bytes()),
                       as_gib(run.limit_bytes));
  if (key == "distributed.fsdp.sharding_strategy")
    return fmt::format("{:.4g} tokens/s expected on {} rank{} ({}).", run.speed->tokens_per_s,
                       run.world(), run.world() == 1 ? "" : "s", result.speed_from(run));
  return "";
}

// The section as the chosen run has it; the batch keys, and what else the choice has changed.
// Values of the environment stay where they are written.
std::vector<config::CommentedKey> chosen_keys(const PlanResult& result) {
  const run::SizedRun& run = result.chosen->run;
  std::set<std::string> wanted(kBatchKeys.begin(), kBatchKeys.end());
  for (const std::string& one : run.candidate.overrides)
    wanted.insert(one.substr(0, one.find('=')));
  // One of the two says how many micro-batches there are.
  wanted.erase(
      std::string(run.config().training.global_batch_size ? kBatchKeys[1] : kBatchKeys[2]));
  std::vector<config::CommentedKey> keys;
  for (const config::ResolvedKey& key : run.resolved.keys) {
    if (!key.key.starts_with("distributed.") && !wanted.contains(key.key)) continue;
    if (!key.reference.is_null()) continue;
    keys.push_back({key.key, key.value, chosen_fact(result, key.key)});
  }
  return keys;
}

std::string chosen_heading(const PlanFlags& flags, const PlanResult& result, bool extends) {
  const run::SizedRun& run = result.chosen->run;
  std::string text = fmt::format(
      "As `wmtp plan --choose` proposes it for {} rank{} of {}: the fastest expected of the {} "
      "that fit, of {} that were looked at.",
      run.world(), run.world() == 1 ? "" : "s", result.device_title, result.chosen->num_fitting,
      result.chosen->num_sized);
  if (!extends && !flags.config.file.empty())
    text += fmt::format(" These keys are to stand in {}.", flags.config.file);
  return config::comment_lines(text, 0);
}

// Whether the file, where it will lie, is the chosen configuration.
bool is_chosen(const PlanFlags& flags, const PlanResult& result, const std::string& yaml) {
  config::LoadRequest request = flags.config.request();
  request.overrides.clear();
  request.file = flags.out;
  request.text = yaml;
  request.check_paths = false;
  request.world_size = flags.world_size;
  try {
    return config::differences(config::load_config(request), result.chosen->run.resolved).empty();
  } catch (const config::ConfigError&) {
    return false;
  }
}

}  // namespace

std::string chosen_yaml(const PlanFlags& flags, const PlanResult& result) {
  const std::string keys = config::commented_yaml(chosen_keys(result));
  if (!flags.out.empty() && !flags.config.file.empty()) {
    std::error_code ignored;
    const fs::path folder = fs::absolute(flags.out, ignored).parent_path();
    const std::string base = fs::proximate(flags.config.file, folder, ignored).string();
    const std::string whole = chosen_heading(flags, result, true) +
                              fmt::format("extends: {}\n", OrderedJson(base).dump()) + keys;
    if (is_chosen(flags, result, whole)) return whole;
  }
  return chosen_heading(flags, result, false) + keys;
}

}  // namespace wmtp::cli
