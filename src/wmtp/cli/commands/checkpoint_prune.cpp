#include <fmt/format.h>

#include <iostream>
#include <optional>

#include "wmtp/checkpoint/format/folder.h"
#include "wmtp/checkpoint/run_lock.h"
#include "wmtp/checkpoint/save/retention.h"
#include "wmtp/cli/commands/checkpoint.h"
#include "wmtp/core/error.h"
#include "wmtp/models/remote/file_systems.h"
#include "wmtp/models/run_paths.h"
#include "wmtp/run/uploads/checkpoint_uploads.h"

namespace wmtp::cli {
namespace {

struct PruneFlags {
  std::string path;
  std::filesystem::path folder;  // of the checkpoints that `path` means
  std::int64_t keep = 3;
  bool bad = false, dry_run = false, force_unlock = false;
};

struct PruneEvent {
  std::string name;
  std::string_view kind;        // checkpoint | leftover | quarantine
  std::string returns_as = {};  // a leftover that comes back under this name
};

std::vector<PruneEvent> prune_model(const PruneFlags& flags, const std::string& model) {
  storage::LocalFileSystem files;
  const checkpoint::RetentionRules rules{.keep = flags.keep,
                                         .pinned = run::queued_uploads(files, flags.folder, model)};
  std::optional<checkpoint::RunLock> lock;
  if (!flags.dry_run)
    lock.emplace(flags.folder, model, checkpoint::this_process("prune"), flags.force_unlock);
  std::vector<PruneEvent> events;
  for (const checkpoint::Leftover& left : checkpoint::find_leftovers(files, flags.folder, model))
    events.push_back({left.name, "leftover", left.returns_as});
  if (!flags.dry_run) checkpoint::clear_leftovers(files, flags.folder, model);
  for (std::string& name : flags.dry_run
                               ? checkpoint::plan_retention(files, flags.folder, model, rules)
                               : checkpoint::apply_retention(files, flags.folder, model, rules))
    events.push_back({std::move(name), "checkpoint"});
  if (!flags.bad) return events;
  for (std::string& name : checkpoint::find_set_aside(files, flags.folder, model)) {
    if (!flags.dry_run) storage::remove_tree(files, flags.folder / name);
    events.push_back({std::move(name), "set_aside"});
  }
  return events;
}

void show_event(const PruneEvent& event, bool dry_run, const Session& session) {
  const bool returns = !event.returns_as.empty();
  if (session.json && returns)
    emit_json("restored", {{"name", event.returns_as}, {"dry_run", dry_run}}, false);
  else if (session.json)
    emit_json("removed", {{"name", event.name}, {"kind", event.kind}, {"dry_run", dry_run}}, false);
  else if (returns)
    std::cout << fmt::format("{} {}\n", dry_run ? "would bring back" : "brought back",
                             event.returns_as);
  else
    std::cout << fmt::format("{} {}{}\n", dry_run ? "would remove" : "removed", event.name,
                             event.kind == "leftover"    ? " (left by a run that died)"
                             : event.kind == "set_aside" ? " (damaged, set aside)"
                                                         : "");
}

// Among the checkpoints of a folder one is no wish: it would seem to be the one that goes.
std::filesystem::path folder_to_prune(const std::filesystem::path& path) {
  if (models::is_remote(path))
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("{} is not on a disk; prune removes nothing from S3", path.string()),
                "remove whole checkpoints there with the tools of S3, manifest.json first");
  std::error_code ignored;
  const bool is_one =
      models::is_checkpoint(path) || std::filesystem::is_regular_file(path, ignored);
  if (is_one)
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("{} is no folder of checkpoints", path.string()),
                "name a run's folder, or the folder of its checkpoints (checkpoint.save_dir)");
  return models::checkpoints_folder(path);
}

int prune(const PruneFlags& given, const Session& session) {
  PruneFlags flags = given;
  flags.folder = folder_to_prune(given.path);
  std::size_t num_removed = 0, num_events = 0;
  for (const std::string& model : checkpoint::find_models(storage::LocalFileSystem(), flags.folder))
    for (const PruneEvent& event : prune_model(flags, model)) {
      ++num_events;
      num_removed += event.returns_as.empty();
      show_event(event, flags.dry_run, session);
    }
  if (session.json)
    emit_json("result", {{"removed", num_removed}, {"dry_run", flags.dry_run}}, false);
  else if (num_events == 0)
    std::cout << fmt::format("nothing to remove in {}\n", flags.folder.string());
  return 0;
}

}  // namespace

void add_checkpoint_prune(CLI::App& checkpoint, Session& session) {
  CLI::App* command = checkpoint.add_subcommand(
      "prune",
      "Remove old checkpoints and what dead runs left; never the best, the final, the two newest "
      "whole ones, or what has yet to go up to storage.s3");
  auto flags = std::make_shared<PruneFlags>();
  command
      ->add_option("dir", flags->path, "A run's folder or one of checkpoints (checkpoint.save_dir)")
      ->required()
      ->type_name("DIR");
  command->add_option("--keep", flags->keep, "How many of the newest stay (default 3)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1'000'000}));
  command->add_flag("--bad", flags->bad, "Also those found damaged and set aside (<name>.bad-<k>)");
  command->add_flag("--dry-run", flags->dry_run, "Only say what would go");
  command->add_flag("--force-unlock", flags->force_unlock, "Take over a stale lock");
  command->footer(
      "  wmtp checkpoint prune runs/demo --keep 2 --dry-run\n"
      "  wmtp checkpoint prune runs/demo --keep 3 --bad");
  command->callback(
      [flags, &session] { session.run = [flags, &session] { return prune(*flags, session); }; });
}

}  // namespace wmtp::cli
