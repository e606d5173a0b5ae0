#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "wmtp/checkpoint/format/folder.h"
#include "wmtp/checkpoint/load/reader.h"
#include "wmtp/cli/commands/checkpoint.h"
#include "wmtp/core/error.h"
#include "wmtp/models/remote/file_systems.h"
#include "wmtp/models/run_paths.h"

namespace wmtp::cli {
namespace {

struct VerifyFlags {
  std::string path;
  bool all = false;
};

// Every byte against both of its checksums. Returns the number of damaged files.
std::size_t verify_one(const std::filesystem::path& folder, const Session& session) {
  const auto found =
      checkpoint::find_damage(*models::files_of(folder), folder, checkpoint::Verify::full);
  for (const checkpoint::Damage& damage : found)
    if (session.json)
      emit_json("damage",
                {{"checkpoint", folder.filename().string()},
                 {"file", damage.file},
                 {"begin", damage.begin},
                 {"end", damage.end},
                 {"fact", damage.fact}},
                false);
    else
      std::cout << fmt::format("{}: {}\n", folder.filename().string(), checkpoint::to_text(damage));
  if (!session.json && found.empty())
    std::cout << fmt::format("{}: ok\n", folder.filename().string());
  return found.size();
}

// One checkpoint or a pointer to it: of a folder of them only --all says which are meant.
std::filesystem::path the_one(const std::filesystem::path& path) {
  const auto found = models::resolve_checkpoint(path);
  std::error_code ignored;
  const bool names_one =
      found && (!models::is_folder(path) || *found == models::plain_remote(path) ||
                std::filesystem::equivalent(*found, path, ignored));
  if (names_one) return *found;
  throw Error(
      ErrorKind::config, "checkpoint",
      fmt::format("{} is no checkpoint: it is {}", path.string(), models::describe_path(path)),
      found ? fmt::format("`wmtp checkpoint verify {} --all` checks those in it", path.string())
            : "`wmtp checkpoint list DIR` shows the checkpoints of a run");
}

std::vector<std::filesystem::path> all_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = models::checkpoints_folder(path);
  std::vector<std::filesystem::path> folders;
  for (const auto& found : checkpoint::find_checkpoints(*models::files_of(folder), folder, ""))
    folders.push_back(folder / found.name);
  if (folders.empty())
    throw Error(ErrorKind::config, "checkpoint",
                fmt::format("no checkpoints in {}: it is {}", folder.string(),
                            models::describe_path(folder)),
                "name a run's folder, or the folder of its checkpoints (checkpoint.save_dir)");
  return folders;
}

int verify(const VerifyFlags& flags, const Session& session) {
  const std::vector<std::filesystem::path> folders =
      flags.all ? all_of(flags.path) : std::vector{the_one(flags.path)};
  std::size_t num_bad = 0;
  for (const std::filesystem::path& folder : folders) num_bad += verify_one(folder, session) > 0;
  if (session.json) emit_json("result", {{"checked", folders.size()}, {"bad", num_bad}}, false);
  return num_bad > 0 ? static_cast<int>(ExitCode::storage) : 0;
}

}  // namespace

void add_checkpoint_verify(CLI::App& checkpoint, Session& session) {
  CLI::App* command = checkpoint.add_subcommand(
      "verify", "Check every byte of a checkpoint; exit code 0, or 74 when one is damaged");
  auto flags = std::make_shared<VerifyFlags>();
  command
      ->add_option(
          "path", flags->path,
          "A checkpoint or a pointer to one; with --all a run's folder or a folder of them; also "
          "s3://...")
      ->required()
      ->type_name("PATH");
  command->add_flag("--all", flags->all, "Every checkpoint in the folder");
  command->footer(
      "  wmtp checkpoint verify runs/demo/checkpoints/qwen3_0_6b-100steps\n"
      "  wmtp checkpoint verify runs/demo --all");
  command->callback(
      [flags, &session] { session.run = [flags, &session] { return verify(*flags, session); }; });
}

}  // namespace wmtp::cli
