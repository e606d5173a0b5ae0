#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "wmtp/cli/command.h"
#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/config/migrate/migration.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/core/printable.h"
#include "wmtp/storage/atomic_file.h"

namespace wmtp::cli {
namespace {

using config::Change;
using config::Migration;
using Action = Change::Action;

struct MigrateFlags {
  std::string file, script, defaults, out;
  bool allow_unknown = false, force = false;
};

[[noreturn]] void refuse_migration(const std::string& fact, const std::string& hint) {
  throw Error(ErrorKind::config, "migrate", fact, hint);
}

Migration migrated(const MigrateFlags& flags) {
  if (flags.file.empty() == flags.script.empty())
    refuse_migration("expected a configuration or --script, one of them",
                     "wmtp migrate old.yaml --out new.yaml");
  if (!flags.script.empty() && !flags.defaults.empty())
    refuse_migration("--defaults beside --script", "a script has no layer below it");
  const config::Environment env = comm::process_environment();
  if (!flags.script.empty()) return config::migrate_script(flags.script, env);
  config::MigrateRequest request;
  request.file = flags.file;
  if (!flags.defaults.empty()) request.defaults = flags.defaults;
  request.env = env;
  return config::migrate_file(request);
}

std::string change_line(const Change& change) {
  const std::string place = change.where.empty() ? "" : change.where + ": ";
  const std::string why = change.why.empty() ? "" : fmt::format(" ({})", change.why);
  switch (change.action) {
    case Action::dropped:
      return fmt::format("{}{} dropped{}", place, change.key, why);
    case Action::not_migrated:
      return fmt::format("{}{} NOT MIGRATED{}", place, change.key, why);
    case Action::filled_in:
      return fmt::format("added {}{}", change.now, why);
    default:
      return fmt::format("{}{} -> {}{}", place, change.key, change.now, why);
  }
}

void tell(const Session& session, const Change& change) {
  if (change.action == Action::unchanged) return;
  if (session.json)
    emit_json("change", {{"action", config::name_of(change.action)},
                         {"key", change.key},
                         {"where", change.where},
                         {"now", change.now},
                         {"why", change.why}});
  else if (!session.quiet || change.action == Action::not_migrated)
    std::cerr << printable(change_line(change)) << "\n";
}

constexpr Action kActions[] = {Action::unchanged, Action::renamed,   Action::translated,
                               Action::dropped,   Action::filled_in, Action::not_migrated};

void refuse_leftovers(const Migration& migration) {
  std::string names;
  for (const Change& change : migration.changes)
    if (change.action == Action::not_migrated) names += (names.empty() ? "" : ", ") + change.key;
  refuse_migration(
      fmt::format("{} not migrated: {}", migration.count(Action::not_migrated), names),
      "change them in the old form, or leave them out by --allow-unknown: they stand as comments "
      "in the result");
}

void write_result(const MigrateFlags& flags, const std::string& yaml) {
  std::error_code ignored;
  if (!flags.force && std::filesystem::exists(flags.out, ignored))
    refuse_migration(fmt::format("{} exists", flags.out), "--force replaces it");
  storage::write_file_atomically(flags.out, yaml, storage::AtomicFile::kPublic);
}

std::string validate_command(const MigrateFlags& flags, const Migration& migration) {
  // The layer below is in the result, under our names.
  return fmt::format("wmtp validate --config {}{}", shell_word(flags.out),
                     migration.below.empty() ? "" : " --defaults none");
}

void print_migration(const Session& session, const MigrateFlags& flags, const Migration& migration,
                     const std::string& yaml) {
  if (session.json) {
    nlohmann::ordered_json line;
    for (const Action action : kActions)
      line[std::string(config::name_of(action))] = migration.count(action);
    line["out"] = flags.out.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(flags.out);
    line["yaml"] = yaml;
    if (!migration.command.empty()) line["command"] = migration.command;
    return emit_json("result", line);
  }
  if (!session.quiet) {
    std::string counts;
    for (const Action action : kActions)
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", migration.count(action),
                            config::name_of(action));
    std::cerr << counts << "\n";
  }
  if (flags.out.empty())
    std::cout << yaml;
  else
    std::cout << fmt::format("{}\nNext: {}\n", flags.out, validate_command(flags, migration));
}

int run_migrate(const Session& session, const MigrateFlags& flags) {
  const Migration migration = migrated(flags);
  for (const Change& change : migration.changes) tell(session, change);
  if (!flags.allow_unknown && migration.count(Action::not_migrated) > 0)
    refuse_leftovers(migration);
  if (!migration.problems.empty())
    refuse_migration(config::ConfigError(migration.problems).fact(),
                     "this is what `wmtp validate` has against the result; if a layer below the "
                     "old file says it, name that by --defaults");
  for (const std::string& notice : migration.notices) log::warn("migrate", "{}", notice);
  // Inside quotes an escape is what it stands for, and nowhere else is there anything to escape.
  const std::string yaml = escape_control(migration.yaml);
  if (!flags.out.empty()) write_result(flags, yaml);
  print_migration(session, flags, migration, yaml);
  return 0;
}

}  // namespace

void add_migrate(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand(
      "migrate", "Rewrite a configuration or a script of Python, saying what changes and why");
  command->group(kDataGroup);
  command->footer(
      "  wmtp migrate old.yaml --out new.yaml\n"
      "  wmtp migrate configs/old.yaml --defaults configs/defaults.yaml\n"
      "  wmtp migrate --script \"torchrun --nproc_per_node 8 train.py --lr 1e-4\"");
  const auto flags = std::make_shared<MigrateFlags>();
  command->add_option("old", flags->file, "A configuration of weighted_mtp")->type_name("OLD.yaml");
  command->add_option("--script", flags->script,
                      "Instead: the command line of a training script around PyTorch's FSDP");
  command->add_option("--defaults", flags->defaults,
                      "The old layer below OLD: a file or `none`; otherwise defaults.yaml beside "
                      "it or in its parent folder");
  command->add_option("--out", flags->out, "Write here instead of stdout");
  command->add_flag("--allow-unknown", flags->allow_unknown,
                    "What has no counterpart is a comment of the result, not an error");
  command->add_flag("--force", flags->force, "Replace the file of --out");
  command->callback([&session, flags] {
    session.run = [&session, flags] { return run_migrate(session, *flags); };
  });
}

}  // namespace wmtp::cli
