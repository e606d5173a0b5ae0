#include "wmtp/run/rehearsal/rehearse.h"

#include <fmt/format.h>

#include <iostream>

#include "wmtp/checkpoint/run_lock.h"
#include "wmtp/comm/groups.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/data/excerpt.h"
#include "wmtp/data/options_from_config.h"
#include "wmtp/models/model_name.h"
#include "wmtp/models/sampling/finite_weights.h"
#include "wmtp/run/checkpoints/resume.h"

// The order is the run's own, so that of several faults the one is told that the run would end
// with: the checkpoint to go on from, the data, the weights as a step would meet them, the step,
// the save. What rank 0 does alone comes before a barrier, which the others leave when it fails.

namespace wmtp::run {
namespace {

// That of a rank which has nothing to say: Trainer says it again.
RunContext silent(RunContext context) {
  context.rank = 1;
  context.local_rank = 1 % context.local_world;
  return context;
}

FindRequest find_request(const config::Config& config, const TrainerOptions& options) {
  return {config,           models::model_name(config), options.run_id,
          options.start_id, options.allow_fresh_start,  /*offline=*/true};
}

std::string look_at_checkpoint(const config::ResolvedConfig& resolved,
                               const RehearsalContext& context, const ModelPlan& plan,
                               const comm::ProcessGroupSession& session) {
  const auto found = look_for_state(find_request(resolved.config, context.options), session);
  if (!found) return {};
  for (const std::string& change :
       require_same_run(*found, resolved, plan.base_fingerprint(), context.run.environment))
    log::info("train", "changed since the checkpoint: {}", change);
  return found->name;
}

bool opens(const config::Config& config, const RunContext& context, const ModelPlan& plan) {
  const auto alone = comm::make_single("rehearsal", c10::Device(c10::DeviceType::CPU));
  RunContext first = context;
  first.rank = first.local_rank = 0;
  try {
    const RunData data(config, first, plan, *alone);
    return true;
  } catch (const Error& error) {
    log::info("data", "the beginnings of the data files do not serve ({}): reading all of them",
              error.fact());
    return false;
  }
}

// Rank 0's choice for all. The beginnings where they make samples: of anything else the whole files
// tell, in the run's own words.
RehearsalData choose_data(const config::ResolvedConfig& resolved, const RehearsalContext& context,
                          const ModelPlan& plan) {
  const config::Dataset& dataset = resolved.config.dataset;
  if (!dataset.auto_cache) return RehearsalData::as_is;
  if (dataset.train_metadata || dataset.validation_metadata) return RehearsalData::whole;
  bool left_out = data::write_excerpts(data::dataset_options(resolved.config, data::Split::train),
                                       train_excerpts(context.folder));
  if (dataset.validation &&
      data::write_excerpts(data::dataset_options(resolved.config, data::Split::validation),
                           validation_excerpts(context.folder)))
    left_out = true;
  if (!left_out) return RehearsalData::whole;
  const auto config =
      rehearsal_config(resolved, context.folder, RehearsalData::beginnings, context.run.world);
  return opens(config.config, context.run, plan) ? RehearsalData::beginnings : RehearsalData::whole;
}

RehearsalData agree_on_data(const config::ResolvedConfig& resolved, const RehearsalContext& context,
                            const ModelPlan& plan, comm::ProcessGroupSession& session) {
  constexpr const char* kKey = "rehearsal data";
  if (session.rank() == 0) {
    const RehearsalData chosen = choose_data(resolved, context, plan);
    session.store().set(kKey, std::to_string(static_cast<int>(chosen)));
  }
  session.gather_group().barrier("rehearsal data");
  return static_cast<RehearsalData>(std::stoi(session.store().get(kKey, std::chrono::seconds(60))));
}

// The root and the blocks of the step whole, samples of the others; each rank reads its share.
bool check_weights(const ModelPlan& plan, const RunContext& context) {
  std::size_t place = 0;
  const auto check = [&](const std::string& model, const std::vector<layout::UnitSpec>& units,
                         const parallel::ReadParam& fill) {
    for (std::size_t unit = 0; unit < units.size(); ++unit)
      for (const layout::ParamSpec& param : units[unit].params) {
        if (static_cast<int>(place++ % static_cast<std::size_t>(context.world)) != context.rank)
          continue;
        const bool is_used = unit <= kRehearsalBlocks || units[unit].kept;
        models::require_finite(model, param, fill,
                               is_used ? models::Reading::whole : models::Reading::samples);
      }
  };
  if (!plan.base_folder.empty())
    check(plan.base_model, training::trainable_units(plan.assemble), plan.fill);
  if (plan.frozen)
    check(plan.frozen->path, training::frozen_units(plan.frozen->source, plan.frozen->options.use),
          plan.frozen->source.fill);
  return !plan.base_folder.empty() || plan.frozen;
}

RunSinks console_alone(const RehearsalContext& context) {
  RunSinks sinks;
  sinks.kept = std::make_shared<tracking::SinkQueue>(std::make_shared<tracking::FanOut>(), 1000);
  tracking::ConsoleOptions console = context.console;
  console.log_interval = 1;  // there is but one step to tell of
  sinks.all.add(std::make_shared<tracking::Console>(std::cout, std::move(console)));
  sinks.all.add(sinks.kept);
  if (context.listener) sinks.all.add(context.listener);
  return sinks;
}

// COLLECTIVE. As a later start would, from what has just been saved.
void reload(Trainer& trainer, const TrainerOptions& options, comm::ProcessGroupSession& session) {
  config::Config config = trainer.config();
  config.checkpoint.resume.kind = config::ResumeFrom::Kind::automatic;
  auto found = find_state(find_request(config, options), session);
  if (!found || found->state.train.step != trainer.state().step)
    throw Error(
        ErrorKind::checkpoint, "checkpoint",
        fmt::format("what was saved in {} is not found again", config.checkpoint.save_dir.string()),
        "do all nodes see that folder, and what others write there?");
  restore(*found, trainer.model(), trainer.stage().ema(),
          {trainer.plan().fill, trainer.plan().stored_nf4});
}

std::int64_t take_step(const config::ResolvedConfig& config, const RehearsalContext& context,
                       comm::ProcessGroupSession& session) {
  const bool leads = session.rank() == 0;
  std::optional<checkpoint::RunLock> lock;
  TrainerOptions options = context.options;
  options.most_blocks = kRehearsalBlocks;
  if (leads)
    lock.emplace(config.config.checkpoint.save_dir, models::model_name(config.config),
                 checkpoint::this_process(options.run_id));
  session.gather_group().barrier("rehearsal folder");
  Trainer trainer(config, context.run, session, options);
  try {
    std::optional<RunReport> report;
    if (leads) report.emplace(config.config, console_alone(context), trainer.facts());
    trainer.run(report ? &*report : nullptr, context.requests);
    reload(trainer, options, session);
  } catch (const std::exception& thrown) {
    context.on_failure(thrown);
    throw;
  }
  return trainer.plan().assemble.model.num_blocks;
}

}  // namespace

RehearsalEnd rehearse(const config::ResolvedConfig& resolved, const RehearsalContext& context,
                      comm::ProcessGroupSession& session) {
  RehearsalEnd end;
  const ModelPlan plan = plan_model(resolved.config, silent(context.run));
  if (session.rank() == 0) end.resumes_from = look_at_checkpoint(resolved, context, plan, session);
  end.data = agree_on_data(resolved, context, plan, session);
  end.weights_read = check_weights(plan, context.run);
  const config::ResolvedConfig config =
      rehearsal_config(resolved, context.folder, end.data, context.run.world);
  end.blocks = take_step(config, context, session);
  session.gather_group().barrier("rehearsal");
  return end;
}

}  // namespace wmtp::run
