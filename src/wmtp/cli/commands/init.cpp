#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <memory>

#include "wmtp/cli/command.h"
#include "wmtp/cli/commands/named_tokenizer.h"
#include "wmtp/cli/config_flags.h"
#include "wmtp/cli/init/fitting.h"
#include "wmtp/cli/init/inputs.h"
#include "wmtp/cli/init/offers.h"
#include "wmtp/cli/init/questions.h"
#include "wmtp/cli/versions.h"
#include "wmtp/core/error.h"
#include "wmtp/core/printable.h"
#include "wmtp/core/suggest.h"
#include "wmtp/model/presets.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::cli {
namespace {

namespace fs = std::filesystem;

nlohmann::ordered_json offers_json(const std::vector<Offer>& offers) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Offer& offer : offers) list.push_back({{"name", offer.name}, {"text", offer.text}});
  return list;
}

void print_offers(std::string_view title, const std::vector<Offer>& offers) {
  std::size_t width = 0;
  for (const Offer& offer : offers) width = std::max(width, offer.name.size());
  std::cout << title << "\n";
  for (const Offer& offer : offers)
    std::cout << fmt::format("  {:<{}}  {}\n", offer.name, width, offer.text);
}

int print_list(const Session& session) {
  const fs::path folder = shipped_folder(ConfigFlags().request().installed_defaults);
  const std::vector<Offer> shipped = shipped_offers(folder);
  if (session.json) {
    emit_json("result", {{"stages", offers_json(stage_offers())},
                         {"presets", offers_json(preset_offers())},
                         {"configurations_in", folder.string()},
                         {"configurations", offers_json(shipped)}});
    return 0;
  }
  print_offers("Stages", stage_offers());
  print_offers("\nPresets, whose weights are drawn at random", preset_offers());
  print_offers(shipped.empty() ? fmt::format("\nNo shipped configurations in {}", folder.string())
                               : fmt::format("\nShipped configurations, in {}", folder.string()),
               shipped);
  return 0;
}

struct Need {
  std::string flag;     // for an error
  std::string& answer;  // where it goes
  Question question;
};

std::string first_that_exists(std::initializer_list<const char*> paths) {
  std::error_code ignored;
  for (const char* path : paths)
    if (fs::exists(path, ignored)) return path;
  return "";
}

Question stage_question() {
  std::vector<std::string> names;
  for (const Offer& offer : stage_offers()) names.push_back(offer.name);
  return {fmt::format("stage ({})", fmt::join(names, ", ")), names.front(),
          [](const std::string& answer) { parse_stage(answer); }};
}

// Asked for in this order; what one is depends on those before it.
std::optional<Need> next_need(InitFlags& flags, std::string& data) {
  if (flags.stage.empty()) return Need{"STAGE", flags.stage, stage_question()};
  parse_stage(flags.stage);
  if (flags.model_name().empty())
    return Need{"--model (or --preset)",
                flags.model,
                {"model folder, or a preset", "micro", require_model}};
  if (flags.data.empty() && data.empty())
    return Need{
        "--data",
        data,
        {"data file", first_that_exists({"train.jsonl", "data/train.jsonl", "demo/train.jsonl"}),
         require_data}};
  if (flags.stage == "rho1" && flags.reference.empty())
    return Need{"--reference", flags.reference, {"reference model", "", require_model}};
  return std::nullopt;
}

std::string missing_flags(InitFlags flags) {
  std::vector<std::string> missing;
  std::string data;
  if (flags.stage.empty()) {
    missing.push_back("STAGE");
    flags.stage = "baseline";  // which needs least
  }
  while (auto need = next_need(flags, data)) {
    missing.push_back(need->flag);
    need->answer = "-";
  }
  return fmt::format("{}", fmt::join(missing, ", "));
}

void complete(InitFlags& flags, bool may_ask) {
  const std::string missing = missing_flags(flags);
  if (missing.empty()) return;
  if (!may_ask)
    throw Error(ErrorKind::config, "init", fmt::format("missing: {}", missing),
                "a terminal would be asked; see `wmtp init --help`, `wmtp init --list`");
  std::string data;
  while (auto need = next_need(flags, data)) need->answer = ask(need->question);
  if (!data.empty()) flags.data = {data};
  if (flags.name.empty())
    flags.name = ask({"name of the run", usual_name(flags.stage, flags.data), [](const auto&) {}});
  if (flags.out.empty())
    flags.out = ask({"file to write (- for none)", flags.name + ".yaml", [](const auto&) {}});
}

// A preset has none, and what lies beside the data may do.
void ask_for_tokenizer(InitFlags& flags) {
  if (!model::find_preset(flags.model_name()) || !flags.tokenizer.empty()) return;
  if (!tokenizer_beside(flags.data).empty()) return;
  flags.tokenizer =
      ask({"tokenizer folder", "", [](const std::string& answer) { open_tokenizer(answer); }});
}

void require_free(const InitFlags& flags) {
  std::error_code ignored;
  const fs::path out = flags.out;
  if (fs::is_directory(out, ignored))
    throw Error(ErrorKind::config, "init", fmt::format("--out {} is a folder", flags.out),
                "name a file");
  if (!flags.force && fs::exists(out, ignored))
    throw Error(ErrorKind::config, "init", fmt::format("{} is there already", flags.out),
                "--force replaces it");
  if (!out.parent_path().empty() && !fs::is_directory(out.parent_path(), ignored))
    throw Error(ErrorKind::config, "init",
                fmt::format("there is no folder {}", out.parent_path().string()),
                missing_path_hint(out.parent_path()));
}

nlohmann::ordered_json init_result(const InitFlags& flags, const InitInputs& inputs,
                                   const Configuration& made) {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const config::CommentedKey& one : made.keys)
    values[one.key] = {{"value", one.value}, {"fact", one.fact}};
  nlohmann::ordered_json line{{"stage", config::name_of(inputs.stage)}, {"name", inputs.name}};
  line["out"] = flags.out.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(flags.out);
  if (flags.out.empty()) line["yaml"] = made.yaml;
  line["values"] = std::move(values);
  return line;
}

int run_init(const Session& session, InitFlags flags) {
  if (flags.list) return print_list(session);
  try_load_cuda_plugin();  // which comes before any other call of LibTorch
  const bool may_ask = !session.json && someone_answers();
  complete(flags, may_ask);
  if (flags.out == "-") flags.out.clear();
  if (may_ask) ask_for_tokenizer(flags);
  if (!flags.out.empty()) require_free(flags);
  const InitInputs inputs = gather_inputs(flags, open_tokenizer);
  const fs::path file = flags.out.empty() ? fs::path(inputs.name + ".yaml") : fs::path(flags.out);
  const Configuration made = fitting_configuration(inputs, file);
  if (!flags.out.empty())
    storage::write_file_atomically(flags.out, made.yaml, storage::AtomicFile::kPublic);
  if (session.json)
    emit_json("result", init_result(flags, inputs, made));
  else if (flags.out.empty())
    std::cout << made.yaml;
  else
    std::cout << fmt::format("{}\nnext: wmtp validate --config {}\n", flags.out,
                             shell_word(flags.out));
  return 0;
}

void add_flags(CLI::App& command, InitFlags& flags) {
  std::vector<CLI::Option*> all;
  const auto add = [&](CLI::Option* option) { return all.emplace_back(option); };
  add(command.add_option("stage", flags.stage, "What is trained, and with which token weights"))
      ->type_name("baseline|critic|verifiable|rho1");
  CLI::Option* model = add(command.add_option(
      "--model", flags.model, "The model: a folder, run, checkpoint, preset, or org/name"));
  add(command.add_option("--preset", flags.preset, "A shape whose weights are drawn at random"))
      ->excludes(model);
  add(command.add_option("--tokenizer", flags.tokenizer, kTokenizerHelp));
  add(command.add_option("--data", flags.data, "Training file; may be repeated"))->expected(1);
  add(command.add_option("--validation", flags.validation,
                         "Validation file; otherwise validation.* beside train.*"))
      ->expected(1);
  add(command.add_option("--critic", flags.critic,
                         "verifiable: values from this critic run or its `final`"));
  add(command.add_option("--reference", flags.reference, "rho1: the model to compare with"));
  add(command.add_option("--name", flags.name, "Name of the run"));
  CLI::Option* out =
      add(command.add_option("--out", flags.out, "File to write; otherwise, or with -, stdout"));
  add(command.add_flag("--force", flags.force, "Replace the file if it is there"))->needs(out);
  CLI::Option* list = command.add_flag(
      "--list", flags.list, "Show the stages, the presets and the shipped configurations");
  for (CLI::Option* option : all) list->excludes(option);
  for (const char* repeated : {"--data", "--validation"})
    command.get_option(repeated)->take_all()->allow_extra_args(false);
}

}  // namespace

void add_init(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand(
      "init", "Write a configuration for your model and data, with the reason for each value");
  command->group(kDataGroup);
  command->footer(
      "  wmtp init baseline --model models/llama --data train.jsonl --out run.yaml\n"
      "  wmtp init critic --preset micro --tokenizer demo --data demo/train.jsonl\n"
      "  wmtp init --list");
  const auto flags = std::make_shared<InitFlags>();
  add_flags(*command, *flags);
  command->callback(
      [&session, flags] { session.run = [&session, flags] { return run_init(session, *flags); }; });
}

}  // namespace wmtp::cli
