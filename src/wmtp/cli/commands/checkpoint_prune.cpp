#include <fmt/format.h>

#include <set>

#include "wmtp/cli/commands/checkpoint.h"
#include "wmtp/commit/folder.h"
#include "wmtp/commit/retention.h"
#include "wmtp/commit/run_lock.h"

namespace wmtp::cli {
namespace {

struct PruneFlags {
  std::string folder;
  std::int64_t keep = 3;
  bool dry_run = false, force_unlock = false;
};

std::vector<std::string> prune_model(const PruneFlags& flags, const std::string& model) {
  storage::LocalFileSystem files;
  const commit::RetentionRules rules{.keep = flags.keep};
  if (flags.dry_run) return commit::plan_retention(files, flags.folder, model, rules);
  const commit::RunLock lock(flags.folder, model, commit::this_process("prune"),
                             flags.force_unlock);
  commit::clear_leftovers(files, flags.folder, model);
  return commit::apply_retention(files, flags.folder, model, rules);
}

int prune(const PruneFlags& flags, const Session& session) {
  const storage::LocalFileSystem files;
  if (files.status(flags.folder).kind != storage::FileKind::folder)
    throw Error(ErrorKind::config, "checkpoint", fmt::format("{} is no folder", flags.folder));
  std::set<std::string> models;
  for (const auto& found : commit::find_checkpoints(files, flags.folder, ""))
    models.insert(found.model);
  std::size_t num_removed = 0;
  for (const std::string& model : models)
    for (const std::string& name : prune_model(flags, model)) {
      ++num_removed;
      if (session.json)
        emit_json("removed", {{"name", name}, {"dry_run", flags.dry_run}}, false);
      else
        fmt::print("{} {}\n", flags.dry_run ? "would remove" : "removed", name);
    }
  if (session.json)
    emit_json("result", {{"removed", num_removed}, {"dry_run", flags.dry_run}}, false);
  return 0;
}

}  // namespace

void add_checkpoint_prune(CLI::App& checkpoint, Session& session) {
  CLI::App* command = checkpoint.add_subcommand(
      "prune", "Remove old checkpoints; never the best, the final or the two newest whole ones");
  auto flags = std::make_shared<PruneFlags>();
  command->add_option("dir", flags->folder, "The folder (checkpoint.save_dir)")
      ->required()
      ->type_name("DIR");
  command->add_option("--keep", flags->keep, "How many of the newest stay")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1'000'000}));
  command->add_flag("--dry-run", flags->dry_run, "Only say what would go");
  command->add_flag("--force-unlock", flags->force_unlock, "Take over a stale lock");
  command->footer("  wmtp checkpoint prune runs/demo/checkpoints --keep 2 --dry-run");
  command->callback(
      [flags, &session] { session.run = [flags, &session] { return prune(*flags, session); }; });
}

}  // namespace wmtp::cli
