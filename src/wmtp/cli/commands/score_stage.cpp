#include <algorithm>

#include "wmtp/cli/commands/score.h"
#include "wmtp/cli/config_run.h"
#include "wmtp/cli/logging/logging_keys.h"
#include "wmtp/core/log.h"
#include "wmtp/core/time.h"
#include "wmtp/run/stages/stage_scorer.h"
#include "wmtp/tensor/host_memory.h"

namespace wmtp::cli {
namespace {

config::ResolvedConfig load_for_score(const ScoreFlags& flags, int world) {
  config::LoadRequest request = flags.config.request();
  if (!flags.data.empty()) request.flags.emplace_back("--data", "dataset.train=" + flags.data);
  if (!flags.device.empty())
    request.flags.emplace_back("--device", "runtime.device=" + flags.device);
  request.world_size = world;
  return load_for_process(request);
}

run::StageScoreOptions stage_options(const ScoreFlags& flags) {
  run::StageScoreOptions options;
  options.num_heads = flags.heads;
  options.values = flags.values;
  options.weights = flags.weights;
  if (flags.step > 0 || flags.weights) options.step = std::max<std::int64_t>(flags.step, 1);
  options.checkpoint = flags.checkpoint;
  options.base_model = flags.base_model;
  return options;
}

pages::ScorePage page_of(const config::Config& config, const run::StageScorer& scorer) {
  pages::ScorePage page;
  page.title = "score of " + config.experiment.name;
  const OrderedJson header = scorer.header();
  for (const auto& [name, fact] : header.items())
    if (name != "type")
      page.facts.emplace_back(name, fact.is_string() ? fact.get<std::string>() : fact.dump());
  page.tokenizer = &scorer.tokenizer();
  return page;
}

int score_rank(const Session& session, const ScoreFlags& flags, const config::Config& config,
               comm::ProcessGroupSession& group, c10::Device device) {
  const run::RunContext context{device,
                                group.rank(),
                                group.world(),
                                rank_memory(config, group.launch().local_world, device),
                                comm::process_environment(),
                                group.launch().local_rank,
                                group.launch().local_world};
  std::optional<ScoreOutput> output;
  if (group.rank() == 0) output.emplace(flags);
  const auto start = Clock::now();
  run::StageScorer scorer(config, context, group, stage_options(flags));
  if (group.rank() == 0)
    log::info("score", "weights and data are there after {}",
              format_duration(seconds_since(start)));
  if (output) output->write(scorer.header().dump() + "\n");
  const models::ScoreSummary summary = broadcasting_failure(
      group, [&] { return scorer.run([&output](std::string_view line) { output->write(line); }); });
  if (output) output->finish(session, summary, page_of(config, scorer));
  return 0;
}

}  // namespace

int score_stage(const Session& session, const ScoreFlags& flags) {
  const comm::LaunchEnv launch = discover_launch();
  std::optional<config::ResolvedConfig> resolved;
  RankRun run;
  try {
    resolved = load_for_score(flags, launch.world);
    apply_console_keys(session, launch, resolved->config.logging);
    run::require_in_stage(resolved->config, stage_options(flags));
    run = make_run(launch, resolved->config);
  } catch (const Error& error) {
    return fail_together(session, launch, error);
  }
  run.options.run_dir.clear();  // a run of that name is none of this command's business
  if (launch.rank == 0)
    for (const std::string& notice : resolved->notices) log::warn("config", "{}", notice);
  set_threads(launch, static_cast<int>(resolved->config.runtime.threads));
  keep_freed_host_memory();
  const c10::Device device = run.options.device;
  return run_as_rank(session, std::move(run), [&](comm::ProcessGroupSession& group) {
    group.agree(facts_of(*resolved, group.launch(), device));
    group.connect();
    return score_rank(session, flags, resolved->config, group, device);
  });
}

}  // namespace wmtp::cli
