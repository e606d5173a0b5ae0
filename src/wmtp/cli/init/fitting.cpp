#include "wmtp/cli/init/fitting.h"

#include <fmt/format.h>

#include "wmtp/cli/config_flags.h"
#include "wmtp/cli/run_outlook.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"

namespace wmtp::cli {
namespace {

constexpr const char* kSchemaFile = "wmtp.schema.json";

// Editors take the schema from the first line, where the file that it names is there.
std::string heading(const InitInputs& inputs, const std::filesystem::path& file) {
  std::error_code ignored;
  const bool has_schema =
      std::filesystem::is_regular_file(file.parent_path() / kSchemaFile, ignored);
  return (has_schema ? fmt::format("# yaml-language-server: $schema={}\n", kSchemaFile) : "") +
         config::comment_lines(
             fmt::format("Stage {}, as `wmtp init` proposes it; `wmtp validate --docs` lists every "
                         "key.",
                         config::name_of(inputs.stage)),
             0);
}

Configuration written(const InitInputs& inputs, const BatchChoice& batch,
                      const std::filesystem::path& file) {
  Configuration result;
  result.keys = proposed_keys(inputs, batch);
  result.yaml = heading(inputs, file) + config::commented_yaml(result.keys);
  return result;
}

CheckedRun checked(const Configuration& configuration, const std::filesystem::path& file) {
  ConfigFlags flags;
  flags.file = file.string();
  config::LoadRequest request = flags.request();
  request.text = configuration.yaml;
  CheckedRun run = check_files(load_for_process(request), 1, true, file.string());
  for (const ShownProblem& problem : run.problems)
    if (!problem.memory) throw Error(problem.kind, "init", problem.text, problem.hint);
  return run;
}

double gib(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

std::string batch_fact(const CheckedRun& run, const BatchChoice& batch) {
  if (run.outlook.fits && run.outlook.memory_bytes && run.memory_bytes > 0)
    return fmt::format("so many at a time take {:.2f} GiB of the {:.2f} GiB here ({}).",
                       gib(*run.outlook.memory_bytes), gib(run.memory_bytes), run.device);
  if (run.device == "cpu")
    return "not held against the memory of a GPU: there is none here, and the run is too large for "
           "this machine.";
  return fmt::format("{} at a time, on one rank, do not fit into the {:.2f} GiB here.",
                     batch.batch_size, gib(run.memory_bytes));
}

// Counted where the data has been indexed; otherwise by what was seen of it.
std::string steps_fact(const InitInputs& inputs, const CheckedRun& run, const BatchChoice& batch,
                       std::int64_t max_length) {
  const std::int64_t per_step = batch.batch_size * batch.accumulation;
  std::optional<std::int64_t> steps = about_samples(inputs, max_length);
  if (steps) steps = (*steps + per_step - 1) / per_step;
  const bool counted = run.outlook.counted && !run.outlook.about && run.outlook.steps;
  if (counted) steps = static_cast<std::int64_t>(*run.outlook.steps);
  if (!steps) return "";
  return fmt::format("{}{} step{} on one rank.", counted ? "" : "about ", *steps,
                     *steps == 1 ? "" : "s");
}

}  // namespace

Configuration fitting_configuration(const InitInputs& inputs, const std::filesystem::path& file) {
  const std::int64_t max_length = proposed_length(inputs.survey, inputs.model.positions).max_length;
  const BatchChoice wanted = proposed_batch(inputs, max_length);
  BatchChoice batch = wanted;
  CheckedRun run = checked(written(inputs, batch, file), file);
  while (!run.outlook.fits && batch.batch_size > 1) {
    batch.batch_size /= 2;
    batch.accumulation *= 2;
    run = checked(written(inputs, batch, file), file);
  }
  if (!run.outlook.fits) {
    if (run.device == "cpu") batch = wanted;  // meant for another machine
    log::warn("init",
              "one rank of this run does not fit into the {:.2f} GiB here ({}); use more "
              "ranks (`wmtp validate --world-size N`), training.use_lora or another machine",
              gib(run.memory_bytes), run.device);
  }
  batch.batch_fact = batch_fact(run, batch);
  batch.steps_fact = steps_fact(inputs, run, batch, max_length);
  return written(inputs, batch, file);
}

}  // namespace wmtp::cli
