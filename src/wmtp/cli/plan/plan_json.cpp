#include "wmtp/cli/plan/plan_result.h"
#include "wmtp/training/assemble.h"

namespace wmtp::cli {
namespace {

using Fields = nlohmann::ordered_json;

template <class T>
Fields value_or_null(const std::optional<T>& value) {
  return value ? Fields(*value) : Fields(nullptr);
}

Fields speed_fields(const PlanResult& result) {
  const auto& speed = result.run.speed;
  if (!speed) return nullptr;
  Fields parts = Fields::array();
  for (const auto& part : speed->parts)
    parts.push_back({{"what", part.what}, {"seconds", part.seconds}});
  return {{"tokens_per_s", speed->tokens_per_s},
          {"tokens_per_s_rank", speed->tokens_per_s_rank},
          {"step_s", speed->step_s},
          {"mfu", speed->mfu},
          {"from", result.speed_from(result.run)},
          {"basis", speed->basis},
          {"parts", std::move(parts)}};
}

Fields memory_fields(const run::SizedRun& run) {
  Fields rows = Fields::array();
  for (const auto& row : run.plan.memory.rows)
    rows.push_back({{"what", row.what}, {"bytes", row.bytes}, {"on_host", row.on_host}});
  Fields moments = Fields::array();
  for (const auto& moment : run.plan.memory.moments)
    moments.push_back({{"name", moment.name}, {"bytes", moment.bytes()}});
  return {{"peak", run.plan.memory.peak},
          {"needed_bytes", run.needed_bytes()},
          {"total_bytes", run.plan.memory.total_bytes()},
          {"limit_bytes", run.limit_bytes},
          {"host_bytes", run.host_bytes()},
          {"rows", std::move(rows)},
          {"moments", std::move(moments)}};
}

// What tells one sized run from another.
Fields run_fields(const PlanResult& result, const run::SizedRun& run) {
  return {{"world_size", run.world()},
          {"batch_size", run.batch_size()},
          {"gradient_accumulation_steps", run.accumulation},
          {"strategy", config::name_of(run.config().distributed.fsdp.sharding_strategy)},
          {"recompute", config::name_of(run.recompute())},
          {"needed_bytes", run.needed_bytes()},
          {"fits", run.fits()},
          {"tokens_per_s", run.speed ? Fields(run.speed->tokens_per_s) : Fields()},
          {"speed_from", run.speed ? Fields(result.speed_from(run)) : Fields()},
          {"hours", value_or_null(result.hours_of(run))},
          {"cost", value_or_null(result.cost_of(run))}};
}

Fields choices_fields(const PlanResult& result) {
  Fields list = Fields::array();
  for (const run::Choice& one : result.choices) {
    Fields choice{{"choice", one.group}, {"name", one.name}, {"current", one.current}};
    choice.update(run_fields(result, one.run));
    choice["largest_batch"] = value_or_null(one.largest_batch);
    list.push_back(std::move(choice));
  }
  return list;
}

Fields advice_fields(const PlanResult& result) {
  if (!result.advice) return nullptr;
  Fields changes = Fields::array();
  for (const run::FitChange& one : result.advice->changes)
    changes.push_back({{"overrides", one.overrides},
                       {"saves_bytes", result.run.needed_bytes() - one.needed_bytes},
                       {"needed_bytes", one.needed_bytes},
                       {"fits", one.fits},
                       {"changes_result", one.changes_result}});
  return {{"changes", std::move(changes)},
          {"overrides", result.advice->overrides},
          {"world_size", value_or_null(result.advice->world)},
          {"world_overrides", result.advice->world_overrides}};
}

Fields sweep_fields(const PlanResult& result) {
  Fields list = Fields::array();
  for (const run::SweptRun& one : result.swept) {
    Fields values = Fields::object();
    for (std::size_t a = 0; a < result.axes.size(); ++a)
      values[result.axes[a].name] = one.values[a];
    Fields row{{"values", std::move(values)}};
    if (one.run)
      row.update(run_fields(result, *one.run));
    else
      row["refused"] = one.refused;
    list.push_back(std::move(row));
  }
  return list;
}

}  // namespace

Fields plan_fields(const PlanResult& result) {
  const run::SizedRun& run = result.run;
  const auto trained = models::trainable_parameters(training::trainable_units(run.plan.assemble));
  Fields line{{"model", run.plan.base_model},
              {"parameters", trained.total},
              {"trained_parameters", trained.trained},
              {"stage", config::name_of(run.config().experiment.stage)},
              {"device", result.device},
              {"device_title", result.device_title},
              {"ranks_per_node", run.ranks_of_node},
              {"max_length", run.config().dataset.max_length}};
  line.update(run_fields(result, run));
  line["memory"] = memory_fields(run);
  line["largest_batch"] = value_or_null(result.largest_batch);
  line["flops_per_token"] = run.speed->model_flops_per_token;
  line["speed"] = speed_fields(result);
  line["steps"] = value_or_null(result.outlook.steps);
  line["tokens_per_step"] = run.tokens_per_step();
  line["choices"] = choices_fields(result);
  line["advice"] = advice_fields(result);
  if (!result.swept.empty()) line["sweep"] = sweep_fields(result);
  if (result.chosen) {
    line["chosen"] = run_fields(result, result.chosen->run);
    line["chosen"]["overrides"] = result.chosen->run.candidate.overrides;
    line["chosen"]["sized"] = result.chosen->num_sized;
    line["chosen"]["fitting"] = result.chosen->num_fitting;
  }
  return line;
}

}  // namespace wmtp::cli
