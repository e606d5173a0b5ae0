#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <optional>

#include "wmtp/cli/commands/score.h"
#include "wmtp/cli/rank_run.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/core/time.h"
#include "wmtp/models/scoring/score.h"
#include "wmtp/tensor/host_memory.h"

namespace wmtp::cli {
namespace {

constexpr std::int64_t kCpuBatchTokens = 2048, kGpuBatchTokens = 16384;

DType score_dtype(const ScoreFlags& flags, c10::Device device) {
  const std::string name = !flags.dtype.empty() ? flags.dtype : device.is_cuda() ? "bf16" : "fp32";
  const DType dtype = dtype_from_name(name);
  if (device.is_cpu() && dtype != kFloat32)
    throw Error(ErrorKind::config, "score", fmt::format("--dtype {} on a CPU", name),
                "the CPU computes in fp32");
  return dtype;
}

int head_count(const ScoreFlags& flags, const model::ModelConfig& config) {
  if (flags.heads > config.n_future)
    throw Error(ErrorKind::config, "score",
                fmt::format("--heads {}, but the model has {} prediction head{}", flags.heads,
                            config.n_future, config.n_future == 1 ? "" : "s"));
  return flags.heads > 0 ? flags.heads : static_cast<int>(config.n_future);
}

nlohmann::ordered_json result_of(const models::ScoreSummary& summary) {
  nlohmann::ordered_json fields{
      {"tokens", summary.num_tokens}, {"nll_mean", nullptr}, {"perplexity", nullptr}};
  if (summary.num_tokens == 0) return fields;
  const double mean = summary.nll_sum / static_cast<double>(summary.num_tokens);
  fields["nll_mean"] = mean;
  fields["perplexity"] = std::exp(mean);
  return fields;
}

std::string result_line(const nlohmann::ordered_json& fields) {
  nlohmann::ordered_json line{{"type", "result"}};
  line.update(fields);
  return line.dump() + "\n";
}

}  // namespace

ScoreOutput::ScoreOutput(const ScoreFlags& flags) : flags_(flags), rows_(flags.html_rows) {
  if (!flags.out.empty()) file_.emplace(flags.out, storage::AtomicFile::kPublic);
  if (!flags.html.empty()) html_.emplace(flags.html, storage::AtomicFile::kPublic);
}

void ScoreOutput::write(std::string_view text) {
  if (html_) rows_.add(text);
  if (file_)
    file_->write(text);
  else if (!html_)
    std::cout << text;
}

void ScoreOutput::finish(const Session& session, const models::ScoreSummary& summary,
                         const pages::ScorePage& page) {
  const nlohmann::ordered_json result = result_of(summary);
  write(result_line(result));
  if (html_) html_->write(pages::to_html(page, rows_));
  if (file_) file_->commit();
  if (html_) html_->commit();
  if (!file_ && !html_) return;
  if (session.json)
    std::cout << result_line(result);
  else if (!session.quiet)
    std::cout << fmt::format("{} tokens, mean NLL {}, perplexity {}; written to {}\n",
                             summary.num_tokens, result["nll_mean"].dump(),
                             result["perplexity"].dump(),
                             flags_.out + (file_ && html_ ? " and " : "") + flags_.html);
}

namespace {

// What contradicts itself, or needs a configuration, by the flags' names.
void check_flags(const ScoreFlags& flags) {
  const auto refuse = [](const std::string& fact, const std::string& hint) {
    throw Error(ErrorKind::config, "score", fact, hint);
  };
  const bool by_config = !flags.config.file.empty();
  if (by_config) {
    if (!flags.model.empty())
      refuse("--model beside --config, which names the model",
             "use --checkpoint P, or --override models.policy.path=P");
    if (!flags.adapter.empty())
      refuse("--adapter beside --config", "the configuration's model is scored as it would train");
    if (!flags.dtype.empty())
      refuse("--dtype beside --config, which decides it",
             "use --override distributed.fsdp.mixed_precision=false");
    if (!flags.base_model.empty() && flags.checkpoint.empty())
      refuse("--base-model beside --config without --checkpoint",
             "it is the base of that checkpoint's adapters");
    return;
  }
  const std::pair<bool, const char*> need_config[] = {
      {flags.values, "--values"},
      {flags.weights, "--weights"},
      {flags.step > 0, "--step"},
      {!flags.config.defaults.empty(), "--defaults"},
      {!flags.config.overrides.empty(), "--override"}};
  for (const auto& [given, name] : need_config)
    if (given)
      refuse(fmt::format("{} without --config", name),
             "the configuration says what a stage makes of a row");
  if (flags.model.empty() == flags.checkpoint.empty())
    refuse(flags.model.empty() ? "no model: --model, --checkpoint or --config is needed"
                               : "--model and --checkpoint both name the model",
           "give one of them");
  if (flags.data.empty()) refuse("--data is needed without --config", "name a file of rows");
}

void score(const Session& session, const ScoreFlags& flags, comm::ProcessGroupSession& group,
           c10::Device device) {
  const DType dtype = score_dtype(flags, device);
  models::ModelSource source =
      models::open_model_source(flags.model.empty() ? flags.checkpoint : flags.model,
                                comm::process_environment(), /*seed=*/0, flags.base_model);
  if (!flags.adapter.empty()) models::apply_adapter(source, flags.adapter);
  const models::ScoreOptions options{head_count(flags, source.config),
                                     device.is_cuda() ? kGpuBatchTokens : kCpuBatchTokens};
  const auto rows = models::open_token_rows(
      flags.data, {source.config.vocab_size, source.config.max_positions, source.tokenizer_folder});
  std::optional<ScoreOutput> output;
  if (group.rank() == 0) output.emplace(flags);
  const auto start = Clock::now();
  models::Scorer scorer(source, dtype, device);
  log::info("score", "{:.1f} million weights loaded in {}",
            static_cast<double>(source.config.total_parameters()) / 1e6,
            format_duration(seconds_since(start)));
  const models::ScoreSummary summary =
      models::score_rows(scorer, *rows, group.gather_group(), options,
                         [&output](std::string_view line) { output->write(line); });
  if (!output) return;
  const std::string model = flags.model.empty() ? flags.checkpoint : flags.model;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
  if (!flags.html.empty() && !source.tokenizer_folder.empty())
    tokenizer = tokenizer::load_tokenizer(source.tokenizer_folder);
  pages::ScorePage page{"score of " + model, {{"model", model}, {"data", flags.data}}, {}};
  if (!flags.adapter.empty()) page.facts.emplace_back("adapter", flags.adapter);
  page.tokenizer = tokenizer.get();
  output->finish(session, summary, page);
}

int run_score(const Session& session, const ScoreFlags& flags) {
  check_flags(flags);
  if (!flags.config.file.empty()) return score_stage(session, flags);
  keep_freed_host_memory();
  RankRun run;
  run.launch = discover_launch();
  run.options.device = choose_device(run.launch, {flags.device.empty() ? "auto" : flags.device});
  const c10::Device device = run.options.device;
  set_threads(run.launch, 0);
  return run_as_rank(session, std::move(run), [&](comm::ProcessGroupSession& group) {
    group.connect();
    score(session, flags, group, device);
    return 0;
  });
}

}  // namespace

void add_score(CLI::App& app, Session& session) {
  CLI::App* command =
      app.add_subcommand("score", "Losses, values and weights of tokens, as JSON Lines");
  command->group(kModelGroup);
  command->footer(
      "  wmtp score --model models/llama --data rows.jsonl\n"
      "  wmtp score --config run.yaml --step 1 --weights --html score.html\n"
      "  wmtp launch --nproc 2 -- score --config run.yaml --values --out values.jsonl");
  const auto flags = std::make_shared<ScoreFlags>();
  flags->config.add_to(*command, /*config_required=*/false);
  command
      ->add_option(
          "--model", flags->model,
          "Model, PEFT or run folder, checkpoint, weights file, org/name in the local cache, or a "
          "preset")
      ->type_name("P");
  command
      ->add_option("--checkpoint", flags->checkpoint,
                   "The weights of a checkpoint, a pointer or a run; with --config instead of "
                   "those it begins with")
      ->type_name("P");
  command
      ->add_option("--base-model", flags->base_model,
                   "Base of adapters and LoRA-only checkpoints, instead of the one they name")
      ->type_name("P");
  command->add_option("--adapter", flags->adapter, "PEFT folder whose adapter is applied, unmerged")
      ->type_name("A");
  command
      ->add_option("--data", flags->data,
                   "JSONL rows {\"ids\":[..]}, instruction rows, or text; with --config a data set "
                   "(dataset.train)")
      ->type_name("FILE");
  command->add_flag("--values", flags->values,
                    "Also the value of every prefix, by the configuration's value function");
  command->add_flag("--weights", flags->weights,
                    "Also what the configuration's stage gives every target; --step 1 if none is "
                    "given");
  command
      ->add_option("--step", flags->step,
                   "The rows of step N in its micro-batches; otherwise all rows, batch_size at a "
                   "time in file order")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  command->add_option("--heads", flags->heads, "The first N prediction heads (default: all)")
      ->type_name("N")
      ->check(CLI::Range(1, 16));
  command->add_option("--device", flags->device, "Where to compute")->type_name("auto|cuda|cpu");
  command->add_option("--dtype", flags->dtype, "Default bf16 on a GPU, fp32 on a CPU")
      ->type_name("bf16|fp32")
      ->check(CLI::IsMember({"bf16", "bfloat16", "fp32", "float32"}));
  command->add_option("--out", flags->out, "Write here instead of stdout; appears on success only")
      ->type_name("FILE");
  command
      ->add_option("--html", flags->html,
                   "Write a page with the tokens coloured, instead of lines to stdout; appears on "
                   "success only")
      ->type_name("FILE");
  command
      ->add_option("--html-rows", flags->html_rows,
                   "Rows on the page: those with the highest mean loss")
      ->type_name("N")
      ->check(CLI::Range(1, 10000))
      ->needs("--html")
      ->capture_default_str();
  command->callback([&session, flags] {
    session.run = [&session, flags] { return run_score(session, *flags); };
  });
}

}  // namespace wmtp::cli
