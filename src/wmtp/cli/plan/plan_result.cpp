#include "wmtp/cli/plan/plan_result.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "wmtp/config/derived.h"
#include "wmtp/training/assemble.h"

namespace wmtp::cli {
namespace {

// Four digits, and no exponent where the number is large.
std::string short_count(double value) {
  return value < 1000 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
}

// Marked where it is less sure than the rest of its table.
std::string per_second(const PlanResult& result, const run::SizedRun& run) {
  if (!run.speed) return "-";
  const std::string from = result.speed_from(run);
  return short_count(run.speed->tokens_per_s) +
         (from == result.rates_from ? "" : fmt::format(" ({})", from));
}

std::string yes_or_no(bool fits) {
  return fits ? "yes" : "no";
}

std::string gib_text(std::int64_t bytes) {
  return fmt::format("{:.2f}", as_gib(bytes));
}

std::string batch_or_none(const std::optional<std::int64_t>& batch) {
  return batch ? std::to_string(*batch) : "none";
}

ShownTable memory_table(const run::SizedRun& run) {
  ShownTable table{fmt::format("Memory of a rank at its peak: {}", run.plan.memory.peak),
                   {{"part", false}, {"GiB"}},
                   {}};
  for (const run::MemoryPlan::Row& row : run.plan.memory.rows)
    table.rows.push_back(
        {row.on_host ? row.what + ", in host memory" : row.what, gib_text(row.bytes)});
  table.rows.push_back({"together", gib_text(run.plan.memory.total_bytes())});
  table.rows.push_back({"with 10 % for the allocator", gib_text(run.needed_bytes())});
  return table;
}

ShownTable moments_table(const run::SizedRun& run) {
  ShownTable table{"Moments of a step", {{"moment", false}, {"GiB"}}, {}};
  for (const run::MemoryPlan::Moment& moment : run.plan.memory.moments)
    table.rows.push_back({moment.name, gib_text(moment.bytes())});
  return table;
}

ShownTable choices_table(const PlanResult& result) {
  ShownTable table{"The same run with one choice made otherwise (* as it is)",
                   {{"choice", false},
                    {"", false},
                    {"recompute", false},
                    {"needs GiB"},
                    {"fits", false},
                    {"largest batch"},
                    {"tokens/s"}},
                   {}};
  for (const run::Choice& one : result.choices)
    table.rows.push_back({one.group, one.name + (one.current ? " *" : ""),
                          std::string(config::name_of(one.run.recompute())),
                          gib_text(one.run.needed_bytes()), yes_or_no(one.run.fits()),
                          batch_or_none(one.largest_batch), per_second(result, one.run)});
  return table;
}

ShownTable advice_table(const PlanResult& result) {
  ShownTable table{"What would save memory, each by itself",
                   {{"change", false}, {"saves GiB"}, {"needs GiB"}, {"fits", false}, {"", false}},
                   {}};
  for (const run::FitChange& one : result.advice->changes)
    table.rows.push_back({fmt::format("{}", fmt::join(one.overrides, " ")),
                          gib_text(result.run.needed_bytes() - one.needed_bytes),
                          gib_text(one.needed_bytes), yes_or_no(one.fits),
                          one.changes_result ? "changes what is learned" : ""});
  return table;
}

ShownTable sweep_table(const PlanResult& result) {
  ShownTable table{"Sweep, the fastest that fits first", {}, {}};
  for (const run::SweepAxis& axis : result.axes) table.columns.push_back({axis.name, false});
  for (Column column : {Column{"needs GiB"}, {"fits", false}, {"tokens/s"}, {"hours"}, {"cost"}})
    table.columns.push_back(std::move(column));
  for (const run::SweptRun& one : result.swept) {
    std::vector<std::string> row = one.values;
    if (!one.run) {
      row.insert(row.end(), {"-", "refused: " + one.refused, "-", "-", "-"});
    } else {
      const auto hours = result.hours_of(*one.run), cost = result.cost_of(*one.run);
      row.insert(row.end(), {gib_text(one.run->needed_bytes()), yes_or_no(one.fits()),
                             per_second(result, *one.run), hours ? short_count(*hours) : "-",
                             cost ? short_count(*cost) : "-"});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string run_fact(const run::SizedRun& run) {
  const config::Fsdp& fsdp = run.config().distributed.fsdp;
  return fmt::format(
      "run: {}, {} x {} tokens a micro-batch, {} micro-batch{} a step, {}, recompute {}",
      config::name_of(run.config().experiment.stage), run.batch_size(),
      run.config().dataset.max_length, run.accumulation, run.accumulation == 1 ? "" : "es",
      config::name_of(fsdp.sharding_strategy), config::name_of(run.recompute()));
}

std::string memory_fact(const run::SizedRun& run) {
  return fmt::format("memory: {:.2f} GiB of {:.2f} GiB a rank: {}", as_gib(run.needed_bytes()),
                     as_gib(run.limit_bytes), run.fits() ? "fits" : "does not fit");
}

std::vector<std::string> speed_facts(const PlanResult& result) {
  const run::ExpectedSpeed& speed = *result.run.speed;
  return {fmt::format("arithmetic: {:.4g} GFLOP a token", speed.model_flops_per_token / 1e9),
          fmt::format("speed: {} tokens/s, {} a rank; {:.4g} s a step; MFU {:.3f} ({})",
                      short_count(speed.tokens_per_s), short_count(speed.tokens_per_s_rank),
                      speed.step_s, speed.mfu, result.speed_from(result.run)),
          "speed from: " + speed.basis};
}

std::string time_fact(const PlanResult& result) {
  const auto hours = result.hours_of(result.run), cost = result.cost_of(result.run);
  if (!hours) return "time: the number of steps is not known";
  std::string text = fmt::format("time: {}{} step{}, {:.4g} hours without validations and saves",
                                 result.outlook.about ? "about " : "", *result.outlook.steps,
                                 *result.outlook.steps == 1 ? "" : "s", *hours);
  if (cost)
    text += fmt::format("; costs {:.4g} at {:g} per GPU-hour", *cost, *result.price_per_gpu_hour);
  return text;
}

std::string choice_fact(const run::Chosen& chosen) {
  const run::SizedRun& run = chosen.run;
  return fmt::format(
      "chosen: {}, recompute {}, {} rows x {} micro-batch{}: {} tokens/s, {:.2f} GiB ({} of {} "
      "settings fit)",
      config::name_of(run.config().distributed.fsdp.sharding_strategy),
      config::name_of(run.recompute()), run.batch_size(), run.accumulation,
      run.accumulation == 1 ? "" : "es", short_count(run.speed->tokens_per_s),
      as_gib(run.needed_bytes()), chosen.num_fitting, chosen.num_sized);
}

std::vector<std::string> advice_facts(const run::FitAdvice& advice) {
  std::vector<std::string> lines;
  if (advice.overrides.empty())
    lines.emplace_back("to fit: no change of keys suffices with these ranks");
  else
    lines.push_back(fmt::format("to fit: --override {} ({:.2f} GiB)",
                                fmt::join(advice.overrides, " --override "),
                                as_gib(advice.needed_bytes)));
  if (advice.world)
    lines.push_back(fmt::format("or on more ranks: --world-size {} --override {}", *advice.world,
                                fmt::join(advice.world_overrides, " --override ")));
  return lines;
}

}  // namespace

double as_gib(std::int64_t bytes) {
  return static_cast<double>(bytes) / 0x1p30;
}

// Steps that the configuration sets stay as many; those of its data end with the data.
std::optional<double> PlanResult::hours_of(const run::SizedRun& other) const {
  if (!outlook.steps || !other.speed) return std::nullopt;
  const auto steps = static_cast<double>(*outlook.steps);
  const auto set = run.config().training.max_steps;
  const bool is_set = set && static_cast<std::uint64_t>(*set) == *outlook.steps;
  const double seconds =
      is_set ? steps * other.speed->step_s
             : steps * static_cast<double>(run.tokens_per_step()) / other.speed->tokens_per_s;
  return seconds / 3600;
}

std::optional<double> PlanResult::cost_of(const run::SizedRun& other) const {
  const auto hours = hours_of(other);
  if (!hours || !price_per_gpu_hour) return std::nullopt;
  return *hours * other.world() * *price_per_gpu_hour;
}

std::string PlanResult::speed_from(const run::SizedRun& other) const {
  return other.speed->estimated ? "estimated" : rates_from;
}

std::vector<std::string> plan_facts(const PlanResult& result) {
  const run::SizedRun& run = result.run;
  const auto trained =
      models::trainable_parameters(training::trainable_units(run.plan.assemble)).summary();
  std::vector<std::string> lines{fmt::format("model: {}; {}", run.plan.base_model, trained),
                                 run_fact(run),
                                 fmt::format("ranks: {} of {} ({} in a node)", run.world(),
                                             result.device_title, run.ranks_of_node),
                                 memory_fact(run)};
  if (run.host_bytes() > 0)
    lines.push_back(fmt::format("host memory: {:.2f} GiB a rank, {:.2f} GiB a node",
                                as_gib(run.host_bytes()),
                                as_gib(run.host_bytes() * run.ranks_of_node)));
  lines.push_back(result.largest_batch
                      ? fmt::format("largest micro-batch that fits: {} rows", *result.largest_batch)
                      : "largest micro-batch that fits: none");
  if (result.advice)
    for (std::string& line : advice_facts(*result.advice)) lines.push_back(std::move(line));
  for (std::string& line : speed_facts(result)) lines.push_back(std::move(line));
  lines.push_back(time_fact(result));
  if (result.chosen) lines.push_back(choice_fact(*result.chosen));
  return lines;
}

std::vector<ShownTable> plan_tables(const PlanResult& result) {
  std::vector<ShownTable> tables{memory_table(result.run), moments_table(result.run)};
  if (result.advice) tables.push_back(advice_table(result));
  tables.push_back(choices_table(result));
  if (!result.swept.empty()) tables.push_back(sweep_table(result));
  return tables;
}

}  // namespace wmtp::cli
