#include "wmtp/cli/run_outlook.h"

#include <fmt/format.h>

#include <limits>

#include "wmtp/cli/rank_run.h"
#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/config/derived.h"

namespace wmtp::cli {
namespace {

struct PlannedPlace {
  run::RunContext context;
  bool other_machine = false;  // the run is meant for one with more memory
  bool limit_known = true;
};

PlannedPlace planned_place(const config::Config& config, int ranks) {
  PlannedPlace place;
  place.context.world = place.context.local_world = ranks;
  place.context.environment = comm::process_environment();
  comm::LaunchEnv launch;
  launch.world = launch.local_world = ranks;
  const std::string wish(config::name_of(config.runtime.device));
  try {
    place.context.device = choose_device(launch, {wish, config.distributed.allow_shared_gpu});
  } catch (const Error&) {
    if (wish != "cuda") throw;
    place.context.device = c10::Device(c10::DeviceType::CUDA, 0);
    place.context.memory_bytes = std::numeric_limits<std::int64_t>::max() / 2;
    place.limit_known = false;
    return place;
  }
  place.context.memory_bytes = rank_memory(config, ranks, place.context.device);
  place.other_machine = wish == "auto" && place.context.device.is_cpu();
  return place;
}

// The key that a fact begins with, or that it is told of; null: none of the configuration's.
const config::ResolvedKey* key_of(const config::ResolvedConfig& resolved,
                                  const run::InputProblem& problem) {
  const config::ResolvedKey* found = nullptr;
  for (const config::ResolvedKey& key : resolved.keys) {
    const char after = problem.fact.c_str()[std::min(key.key.size(), problem.fact.size())];
    if (problem.fact.starts_with(key.key) && (after == ':' || after == '.' || after == ' '))
      return &key;
    if (key.key == problem.key) found = &key;
  }
  return found;
}

ShownProblem shown_problem(const config::ResolvedConfig& resolved, const run::InputProblem& problem,
                           const std::string& stage_file) {
  const config::ResolvedKey* key = key_of(resolved, problem);
  ShownProblem one{problem.kind, stage_file, problem.fact, problem.hint, problem.memory};
  if (!key) return one;
  if (!problem.fact.starts_with(key->key)) one.text = fmt::format("{}: {}", key->key, problem.fact);
  if (key->origin != "built-in" && !key->origin.starts_with("derived")) one.where = key->origin;
  return one;
}

double in_gib(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

CheckedRun shown_check(const config::ResolvedConfig& resolved, const run::RunCheck& check,
                       int ranks, const std::string& stage_file) {
  CheckedRun checked;
  checked.ranks = ranks;
  checked.accumulation = config::accumulation_steps(resolved.config, ranks);
  checked.outlook = check.outlook;
  for (const run::InputProblem& problem : check.problems)
    checked.problems.push_back(shown_problem(resolved, problem, stage_file));
  return checked;
}

CheckedRun check_files(const config::ResolvedConfig& resolved, int ranks, bool read_files,
                       const std::string& stage_file) {
  const config::Config& config = resolved.config;
  if (!read_files) {
    run::RunContext context;
    context.world = context.local_world = ranks;
    return shown_check(resolved, run::check_without_files(config, context), ranks, stage_file);
  }
  const PlannedPlace place = planned_place(config, ranks);
  CheckedRun checked = shown_check(
      resolved, run::check_run(config, place.context, place.other_machine), ranks, stage_file);
  checked.device = place.context.device.is_cuda() ? "cuda" : "cpu";
  if (place.limit_known) checked.memory_bytes = place.context.memory_bytes;
  return checked;
}

std::string CheckedRun::text(const config::Config& config) const {
  const std::string_view about = outlook.about ? "about " : "";
  std::string lines;
  if (outlook.steps)
    lines += fmt::format("steps: {}{}\n", outlook.counted ? about : "at most ", *outlook.steps);
  if (outlook.rows)
    lines += fmt::format("rows: {}{}{}\n", about, *outlook.rows,
                         outlook.about ? " (not indexed yet)" : "");
  lines += fmt::format(
      "tokens a step: at most {} (batch_size {} x accumulation {} x ranks {}, {} tokens each)\n",
      outlook.tokens_per_step, config.training.batch_size, accumulation, ranks,
      config.dataset.max_length);
  if (outlook.trainable) {
    lines += outlook.trainable->summary() + "\n";
    for (const std::string& line : outlook.trainable->lines()) lines += fmt::format("  {}\n", line);
  }
  if (outlook.memory_bytes && memory_bytes > 0)
    lines += fmt::format("memory: {:.2f} GiB of {:.2f} GiB a rank ({})\n",
                         in_gib(*outlook.memory_bytes), in_gib(memory_bytes), device);
  else if (outlook.memory_bytes)
    lines += fmt::format("memory: {:.2f} GiB a rank ({}, of which there is none here)\n",
                         in_gib(*outlook.memory_bytes), device);
  return lines + fmt::format("ranks: {}\n", ranks);
}

nlohmann::ordered_json CheckedRun::fields() const {
  using Field = nlohmann::ordered_json;
  const std::optional<std::int64_t> limit =
      memory_bytes > 0 ? std::optional(memory_bytes) : std::nullopt;
  return {
      {"steps", or_null(outlook.steps)},
      {"rows", or_null(outlook.rows)},
      {"indexed", outlook.counted && !outlook.about},
      {"tokens_per_step", outlook.tokens_per_step},
      {"trained_parameters", outlook.trainable ? Field(outlook.trainable->trained) : Field()},
      {"parameters", outlook.trainable ? Field(outlook.trainable->total) : Field()},
      {"trainable", outlook.trainable ? Field(outlook.trainable->lines()) : Field()},
      {"memory_bytes", or_null(outlook.memory_bytes)},
      {"memory_limit_bytes", or_null(limit)},
      {"device", device.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(device)},
      {"ranks", ranks},
      {"gradient_accumulation_steps", accumulation}};
}

}  // namespace wmtp::cli
