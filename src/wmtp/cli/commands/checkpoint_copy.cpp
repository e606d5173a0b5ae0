#include <fmt/format.h>

#include <iostream>

#include "wmtp/cli/commands/checkpoint.h"
#include "wmtp/core/error.h"
#include "wmtp/models/remote/copy_checkpoint.h"
#include "wmtp/models/remote/file_systems.h"
#include "wmtp/models/run_paths.h"

namespace wmtp::cli {
namespace {

struct CopyFlags {
  std::string from, to;
};

[[noreturn]] void refuse_copy(const std::string& fact, const std::string& hint) {
  throw Error(ErrorKind::config, "checkpoint", fact, hint);
}

models::OnCopied progress_of(const Session& session, const char* verb) {
  return [&session, verb](const models::CopiedFile& file) {
    if (session.json)
      emit_json("file",
                {{"path", file.path},
                 {"bytes", file.bytes},
                 {"copied", !file.was_there},
                 {"done", file.done},
                 {"total", file.total}},
                false);
    else if (!session.quiet)
      std::cout << fmt::format("[{}/{}] {} {} ({} bytes)\n", file.done, file.total,
                               file.was_there ? "kept" : verb, file.path, file.bytes)
                << std::flush;
  };
}

void show_copy(const models::CopyResult& result, const Session& session) {
  if (session.json)
    emit_json("result",
              {{"name", result.name},
               {"place", result.place},
               {"copied", result.num_copied},
               {"kept", result.num_kept},
               {"copied_bytes", result.copied_bytes},
               {"pointers", result.pointers}},
              false);
  else if (!session.quiet)
    std::cout << fmt::format("{}: {} files copied ({} bytes), {} were there\n", result.place,
                             result.num_copied, result.copied_bytes, result.num_kept);
}

std::filesystem::path checkpoint_at(const std::string& path) {
  if (const auto found = models::resolve_checkpoint(path); found && models::is_checkpoint(*found))
    return *found;
  refuse_copy(fmt::format("{} is no checkpoint: it is {}", path, models::describe_path(path)),
              "`wmtp checkpoint list DIR` shows the checkpoints of a run");
}

int push(const CopyFlags& flags, const Session& session) {
  if (!models::is_remote(flags.to))
    refuse_copy(fmt::format("{} is no place in S3", flags.to), "name one as s3://bucket/prefix");
  if (models::is_remote(flags.from))
    refuse_copy(fmt::format("{} is in S3 already", flags.from),
                "pull it first: `wmtp checkpoint pull`");
  const auto result =
      models::push_checkpoint(checkpoint_at(flags.from), flags.to, progress_of(session, "sent"));
  show_copy(result, session);
  return 0;
}

int pull(const CopyFlags& flags, const Session& session) {
  if (!models::is_remote(flags.from))
    refuse_copy(fmt::format("{} is not in S3", flags.from), "name it as s3://bucket/prefix");
  if (models::is_remote(flags.to))
    refuse_copy(fmt::format("{} is no folder on a disk", flags.to),
                "name the folder of checkpoints that it goes to (checkpoint.save_dir)");
  const auto result =
      models::pull_checkpoint(checkpoint_at(flags.from), flags.to, progress_of(session, "fetched"));
  show_copy(result, session);
  return 0;
}

}  // namespace

void add_checkpoint_push(CLI::App& checkpoint, Session& session) {
  CLI::App* command = checkpoint.add_subcommand(
      "push", "Copy a checkpoint to S3, its manifest last; what is there already is not sent");
  auto flags = std::make_shared<CopyFlags>();
  command
      ->add_option("path", flags->from,
                   "A checkpoint or a pointer to one; of a run's folder or one of checkpoints the "
                   "newest")
      ->required()
      ->type_name("PATH");
  command
      ->add_option("to", flags->to,
                   "s3://bucket/prefix: <model>-<N>steps and <model>-latest appear below it")
      ->required()
      ->type_name("URI");
  command->footer(
      "  wmtp checkpoint push runs/demo s3://bucket/checkpoints/demo\n"
      "  wmtp checkpoint push runs/demo/checkpoints/qwen3_0_6b-best s3://bucket/kept");
  command->callback(
      [flags, &session] { session.run = [flags, &session] { return push(*flags, session); }; });
}

void add_checkpoint_pull(CLI::App& checkpoint, Session& session) {
  CLI::App* command = checkpoint.add_subcommand(
      "pull",
      "Copy a checkpoint from S3, every byte checked; it appears when it is whole, and a pull that "
      "was cut short goes on");
  auto flags = std::make_shared<CopyFlags>();
  command
      ->add_option("from", flags->from,
                   "s3://...: a checkpoint or a pointer to one; of a folder of them the newest")
      ->required()
      ->type_name("URI");
  command->add_option("dir", flags->to, "Folder of checkpoints in which <model>-<N>steps appears")
      ->required()
      ->type_name("DIR");
  command->footer(
      "  wmtp checkpoint pull s3://bucket/checkpoints/demo runs/demo/checkpoints\n"
      "  wmtp checkpoint pull s3://bucket/checkpoints/demo/qwen3_0_6b-100steps runs/b/checkpoints");
  command->callback(
      [flags, &session] { session.run = [flags, &session] { return pull(*flags, session); }; });
}

}  // namespace wmtp::cli
