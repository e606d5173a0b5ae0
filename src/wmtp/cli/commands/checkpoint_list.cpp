#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iostream>

#include "wmtp/checkpoint/load/listing.h"
#include "wmtp/cli/commands/checkpoint.h"
#include "wmtp/models/remote/file_systems.h"
#include "wmtp/models/run_paths.h"

namespace wmtp::cli {
namespace {

using checkpoint::ListedCheckpoint;
using checkpoint::SetAside;

std::vector<std::string> marks_of(const ListedCheckpoint& one) {
  std::vector<std::string> marks;
  for (const checkpoint::Pointer mark : one.marks) marks.emplace_back(checkpoint::name_of(mark));
  return marks;
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", size, kUnits[unit]);
}

using ListRow = std::array<std::string, 6>;

// Numbers to the right; the last column is as long as it is.
void print_table(const std::vector<ListRow>& rows) {
  std::array<std::size_t, 6> width{};
  for (const ListRow& row : rows)
    for (std::size_t i = 0; i + 1 < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  for (const ListRow& row : rows)
    std::cout << fmt::format("{:<{}}  {:>{}}  {:<{}}  {:>{}}  {:<{}}  {}\n", row[0], width[0],
                             row[1], width[1], row[2], width[2], row[3], width[3], row[4], width[4],
                             row[5]);
}

void show_list(const std::vector<ListedCheckpoint>& found, const std::vector<SetAside>& aside) {
  std::vector<ListRow> rows{{"NAME", "STEP", "CREATED", "SIZE", "MARKS", "STATE"}};
  for (const ListedCheckpoint& one : found)
    rows.push_back({one.name, fmt::format("{}", one.step), one.created, size_text(one.bytes),
                    fmt::format("{}", fmt::join(marks_of(one), ",")),
                    one.fault.empty() ? "headers ok" : one.fault});
  for (const SetAside& one : aside)
    rows.push_back({one.name, "", "", size_text(one.bytes), "", "damaged, set aside"});
  if (rows.size() > 1) print_table(rows);
}

void emit_list(const std::vector<ListedCheckpoint>& found, const std::vector<SetAside>& aside) {
  for (const ListedCheckpoint& one : found)
    emit_json("checkpoint",
              {{"name", one.name},
               {"model", one.model},
               {"step", one.step},
               {"created", one.created},
               {"bytes", one.bytes},
               {"marks", marks_of(one)},
               {"headers_ok", one.fault.empty()},
               {"fault", one.fault}},
              false);
  for (const SetAside& one : aside)
    emit_json("set_aside", {{"name", one.name}, {"bytes", one.bytes}}, false);
}

int list(const std::string& path, const Session& session) {
  const std::filesystem::path folder = models::checkpoints_folder(path);
  const auto files = models::files_of(folder);
  const auto found = checkpoint::list_checkpoints(*files, folder);
  const auto aside = checkpoint::list_set_aside(*files, folder);
  if (session.json) {
    emit_list(found, aside);
    emit_json(
        "result",
        {{"folder", folder.string()}, {"checkpoints", found.size()}, {"set_aside", aside.size()}},
        false);
    return 0;
  }
  show_list(found, aside);
  if (found.empty()) std::cout << fmt::format("no checkpoints in {}\n", folder.string());
  return 0;
}

}  // namespace

void add_checkpoint_list(CLI::App& checkpoint, Session& session) {
  CLI::App* command = checkpoint.add_subcommand(
      "list", "Show the checkpoints of a run: step, time, size, marks, state by their headers");
  auto folder = std::make_shared<std::string>(".");
  command
      ->add_option("dir", *folder,
                   "A run's folder or one of checkpoints (checkpoint.save_dir), also s3://...; "
                   "default: this one")
      ->type_name("DIR");
  command->footer(
      "  wmtp checkpoint list runs/demo\n"
      "  wmtp --json checkpoint list /data/checkpoints\n"
      "  wmtp checkpoint list s3://bucket/checkpoints/demo");
  command->callback(
      [folder, &session] { session.run = [folder, &session] { return list(*folder, session); }; });
}

}  // namespace wmtp::cli
