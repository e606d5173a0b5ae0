#include <fmt/format.h>
#include <fmt/ranges.h>

#include "wmtp/cli/commands/checkpoint.h"
#include "wmtp/commit/listing.h"

namespace wmtp::cli {
namespace {

using commit::ListedCheckpoint;

std::vector<std::string> marks_of(const ListedCheckpoint& one) {
  std::vector<std::string> marks;
  for (const commit::Pointer mark : one.marks) marks.emplace_back(commit::name_of(mark));
  return marks;
}

void show(const ListedCheckpoint& one, const Session& session) {
  if (session.json)
    emit_json("checkpoint",
              {{"name", one.name},
               {"model", one.model},
               {"step", one.step},
               {"created", one.created},
               {"bytes", one.bytes},
               {"marks", marks_of(one)},
               {"verified", one.fault.empty()},
               {"fault", one.fault}},
              false);
  else
    fmt::print("{:<40} {:>12} {:>26} {:>16}  {:<20} {}\n", one.name, one.step, one.created,
               one.bytes, fmt::join(marks_of(one), ","), one.fault.empty() ? "ok" : one.fault);
}

int list(const std::string& folder, const Session& session) {
  const storage::LocalFileSystem files;
  const auto found = commit::list_checkpoints(files, folder);
  for (const ListedCheckpoint& one : found) show(one, session);
  if (session.json)
    emit_json("result", {{"checkpoints", found.size()}}, false);
  else if (found.empty())
    fmt::print("no checkpoints in {}\n", folder);
  return 0;
}

}  // namespace

void add_checkpoint_list(CLI::App& checkpoint, Session& session) {
  CLI::App* command = checkpoint.add_subcommand(
      "list", "Show the checkpoints of a folder: step, time, bytes, marks, state");
  auto folder = std::make_shared<std::string>(".");
  command->add_option("dir", *folder, "The folder (checkpoint.save_dir); default: this one")
      ->type_name("DIR");
  command->footer("  wmtp checkpoint list runs/demo/checkpoints");
  command->callback(
      [folder, &session] { session.run = [folder, &session] { return list(*folder, session); }; });
}

}  // namespace wmtp::cli
