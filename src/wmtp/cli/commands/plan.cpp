#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <memory>

#include "wmtp/cli/command.h"
#include "wmtp/cli/plan/chosen_yaml.h"
#include "wmtp/cli/plan/plan_device.h"
#include "wmtp/cli/plan/plan_result.h"
#include "wmtp/cli/versions.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/core/printable.h"
#include "wmtp/run/plan/sizing/sizing_tables.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::cli {
namespace {

// Memory is planned already: here the files and how many steps they make.
run::RunOutlook outlook_of(const PlanFlags& flags, const run::SizedRun& sized,
                           const run::RunContext& context) {
  if (!flags.model.empty() || flags.no_check_paths)
    return run::check_without_files(sized.config(), context).outlook;
  const run::RunCheck check = run::check_run(sized.config(), context, /*other_machine=*/true);
  for (const run::InputProblem& problem : check.problems)
    throw Error(problem.kind, "plan",
                problem.key.empty() ? problem.fact : problem.key + ": " + problem.fact,
                problem.hint.empty() ? "--no-check-paths plans without the data"
                                     : problem.hint + "; --no-check-paths plans without the data");
  return check.outlook;
}

run::RunContext context_of(const run::SizedRun& sized, const run::SizingPlace& place) {
  run::RunContext context;
  context.device = place.device;
  context.world = sized.world();
  context.local_world = sized.ranks_of_node;
  context.memory_bytes = sized.limit_bytes;
  context.environment = place.environment;
  context.named_gpu = place.named_gpu;
  return context;
}

PlanResult planned(const PlanFlags& flags, const config::LoadRequest& request, PlanDevice& device) {
  run::RunSizer sizer(request, device.place());
  PlanResult result;
  result.run = sizer.size({{}, flags.world_size});
  result.outlook = outlook_of(flags, result.run, context_of(result.run, sizer.place()));
  for (const std::string& text : flags.sweep) result.axes.push_back(run::parse_axis(text));
  sizer.add_speed(result.run);
  result.device = device.name();
  result.device_title = device.title();
  result.rates_from = device.rates_from();
  result.price_per_gpu_hour = flags.price_per_gpu_hour;
  result.largest_batch = sizer.largest_batch(result.run);
  result.choices = run::compare_choices(sizer, result.run);
  if (!result.run.fits()) result.advice = run::advise(sizer, result.run);
  if (!result.axes.empty()) result.swept = run::sweep(sizer, result.run.candidate, result.axes);
  if (flags.choose)
    result.chosen = run::choose(sizer, result.run, {result.axes, flags.any_samples()});
  return result;
}

void write_page(const std::string& file, const std::string& text) {
  storage::write_file_atomically(file, text, storage::AtomicFile::kPublic);
}

[[noreturn]] void refuse_choice(const PlanResult& result) {
  std::string hint = "see `wmtp plan` without --choose for what would save memory";
  if (result.advice && result.advice->world)
    hint = fmt::format("--world-size {} would do; ", *result.advice->world) + hint;
  throw Error(ErrorKind::config, "plan",
              fmt::format("--choose: nothing that was looked at fits into the {:.2f} GiB of a rank",
                          as_gib(result.run.limit_bytes)),
              hint);
}

int print_size_tables(const Session& session) {
  if (!session.json) {
    std::cout << run::sizing_tables();
    return 0;
  }
  for (const bool settings : {false, true})
    for (const run::TableAnswer& one : settings ? run::settings_answers() : run::size_answers()) {
      nlohmann::ordered_json line{{"table", settings ? "settings" : "sizes"},
                                  {"size", one.question.size},
                                  {"model", one.question.preset},
                                  {"lora", one.question.lora},
                                  {"device", one.question.gpu},
                                  {"world_size", one.question.world},
                                  {"fits", one.chosen.has_value()}};
      if (one.chosen) {
        const run::SizedRun& run = one.chosen->run;
        line["strategy"] = config::name_of(run.config().distributed.fsdp.sharding_strategy);
        line["recompute"] = config::name_of(run.recompute());
        line["batch_size"] = run.batch_size();
        line["largest_batch"] = one.largest_batch.value_or(0);
        line["needed_bytes"] = run.needed_bytes();
        line["tokens_per_s_rank"] = run.speed->tokens_per_s_rank;
        line["from"] = run.speed->estimated ? "estimated" : "measured table";
      }
      emit_json("plan", line);
    }
  return 0;
}

int run_plan(const Session& session, const PlanFlags& flags) {
  if (flags.tables) return print_size_tables(session);
  try_load_cuda_plugin();  // which comes before any other call of LibTorch
  const config::LoadRequest request = flags.request();
  const config::ResolvedConfig resolved = load_for_process(request);
  PlanDevice device(flags, resolved.config);
  const PlanResult result = planned(flags, request, device);
  if (flags.choose && !result.chosen) refuse_choice(result);
  if (!flags.html.empty()) write_page(flags.html, plan_page(result));
  const std::string yaml = flags.choose ? chosen_yaml(flags, result) : "";
  if (!flags.out.empty()) write_page(flags.out, yaml);
  if (session.json) {
    nlohmann::ordered_json line = plan_fields(result);
    if (flags.choose) line["chosen"]["yaml"] = yaml;
    emit_json("plan", line);
    return 0;
  }
  std::cout << (flags.choose && flags.out.empty() ? yaml : plan_text(result));
  for (const std::string& file : {flags.out, flags.html})
    if (!file.empty()) log::info("plan", "wrote {}", file);
  return 0;
}

void add_asked(CLI::App& command, PlanFlags& flags) {
  flags.config.add_to(command, false);
  CLI::Option* config = command.get_option("--config");
  CLI::Option* model =
      command
          .add_option("--model", flags.model,
                      "Without a configuration: a preset (`wmtp init --list`) or model folder")
          ->excludes(config);
  command
      .add_option("--batch", flags.batch_size, "With --model: rows of a micro-batch (default 1)")
      ->check(CLI::PositiveNumber)
      ->needs(model);
  command.add_option("--seq", flags.max_length, "With --model: tokens of a row (default 2048)")
      ->check(CLI::PositiveNumber)
      ->needs(model);
  command.add_option("--lora", flags.lora_rank, "With --model: train LoRA of this rank")
      ->type_name("RANK")
      ->check(CLI::PositiveNumber)
      ->needs(model);
  command.add_flag("--no-check-paths", flags.no_check_paths,
                   "The data is elsewhere: only models are read");
}

void add_where(CLI::App& command, PlanFlags& flags) {
  command.add_option("--world-size", flags.world_size, "Number of ranks (default 1)")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--ranks-per-node", flags.ranks_per_node,
                  "Of them in a node (default: 8 GPUs, all CPU ranks)")
      ->check(CLI::PositiveNumber);
  command
      .add_option(
          "--gpu", flags.gpu,
          fmt::format("{} (default: the device here)", fmt::join(run::device_names(), ", ")))
      ->type_name("NAME");
  command
      .add_option("--memory-gib", flags.memory_gib, "Memory of a rank, in place of the device's")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--price-per-gpu-hour", flags.price_per_gpu_hour,
                  "For what the run costs, in any currency")
      ->check(CLI::NonNegativeNumber);
  command.add_flag("--no-calibrate", flags.no_calibrate,
                   "CPU: rates of a usual core, not those of 2 s of measurement here");
}

void add_answers(CLI::App& command, PlanFlags& flags) {
  command
      .add_option("--sweep", flags.sweep,
                  fmt::format("KEY=a,b,c: all combinations; {} or any key; may be repeated",
                              fmt::join(run::sweep_names(), ", ")))
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  CLI::Option* choose = command.add_flag(
      "--choose", flags.choose,
      "Write the fastest expected settings that fit: a `distributed` section and batch keys");
  command.add_option("--out", flags.out, "With --choose: the file to write; otherwise stdout")
      ->needs(choose);
  command.add_option("--html", flags.html, "Also write the plan as a page");
  CLI::Option* tables =
      command.add_flag("--tables", flags.tables, "Print the tables of docs/sizing.md");
  for (const char* name : {"--config", "--model", "--sweep", "--choose", "--html"})
    tables->excludes(command.get_option(name));
}

}  // namespace

void add_plan(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand(
      "plan", "What a run needs and how fast it will be, and which settings fit best");
  command->group(kDataGroup);
  command->footer(
      "  wmtp plan --config run.yaml --world-size 8 --gpu h100\n"
      "  wmtp plan --model llama-3.1-8b --gpu h200 --world-size 4 --sweep batch_size=1,2,4,8\n"
      "  wmtp plan --config run.yaml --choose --out fast.yaml");
  const auto flags = std::make_shared<PlanFlags>();
  add_asked(*command, *flags);
  add_where(*command, *flags);
  add_answers(*command, *flags);
  command->callback(
      [&session, flags] { session.run = [&session, flags] { return run_plan(session, *flags); }; });
}

}  // namespace wmtp::cli
