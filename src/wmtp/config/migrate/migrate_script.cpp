#include <fmt/format.h>

#include <filesystem>

#include "wmtp/config/migrate/checked.h"
#include "wmtp/config/migrate/migration.h"
#include "wmtp/config/migrate/rewrites.h"
#include "wmtp/config/migrate/script_call.h"
#include "wmtp/config/migrate/script_flags.h"
#include "wmtp/core/printable.h"

namespace wmtp::config {
namespace {

// What a configuration must say and a command line of such scripts leaves to the script itself.
void fill_in_required(Rewriter& rewriter, const std::string& script) {
  const auto fill = [&](const char* key, const std::string& value, const char* why) {
    rewriter.fill_in(key, plain_scalar(value, {}), why);
  };
  fill("experiment.name", run_name(std::filesystem::path(script).stem().string()),
       "the script's name");
  fill("experiment.stage", "baseline", "next tokens, all alike");
  fill("models.policy.path", "Qwen/Qwen3-0.6B", "the script does not say it here: name yours");
  if (!rewriter.draft().find("dataset.train")) {
    fill("dataset.train", "data/train.txt", "the script does not say it here: name your files");
    fill("dataset.format", "text", "documents run on into blocks of dataset.max_length");
  }
  fill("training.learning_rate", "1e-4", "the script's own default is not known: set it");
}

std::string joined_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += shell_word(word) + " ";
  return text;
}

}  // namespace

Migration migrate_script(const std::string& command_line, const Environment& env) {
  const ScriptCall call = parse_script_call(command_line);
  Problems places;
  const Place place{places.add_override("--script"), 0, 0};
  Rewriter rewriter(Node(), places, Rewriter::kNoSource);
  const auto entry_of = [&](const std::string& word) { return OldEntry{word, "", place, Node()}; };
  for (const std::string& variable : call.variables)
    rewriter.drop(entry_of(variable.substr(0, variable.find('='))),
                  "a variable of the environment: set it before wmtp as before");
  std::string launch;
  for (const ScriptFlag& flag : call.launcher_flags)
    launch += take_launcher_flag(rewriter, flag, place);
  for (const ScriptFlag& flag : call.flags) take_script_flag(rewriter, flag, place);
  for (const std::string& word : call.arguments)
    rewriter.refuse(entry_of(word), "no flag takes this word");
  fill_in_required(rewriter, call.script);

  const std::string command = joined_words(call.starter) + "wmtp " +
                              (launch.empty() ? "" : "launch" + launch + " -- ") + "train --config";
  Migration migration = checked(rewriter,
                                {fmt::format("Migrated from the command line of {}.", call.script),
                                 fmt::format("Start: {} FILE", command)},
                                "--script", env);
  migration.command = command;
  return migration;
}

}  // namespace wmtp::config
