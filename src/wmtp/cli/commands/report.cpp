#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <set>

#include "wmtp/cli/command.h"
#include "wmtp/cli/commands/report.h"
#include "wmtp/core/error.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/tracking/report/overview.h"
#include "wmtp/tracking/report/page.h"

namespace wmtp::cli {
namespace {

struct ReportFlags {
  std::vector<std::string> runs;
  std::string compare, format = "html", out;
  bool sync_mlflow = false;
};

std::vector<tracking::RunData> read_runs(const ReportFlags& flags) {
  std::vector<std::string> folders = flags.runs;
  if (!flags.compare.empty()) folders.push_back(flags.compare);
  std::vector<tracking::RunData> runs;
  std::set<std::string> names;
  bool unique = true;
  for (const std::string& folder : folders) {
    runs.push_back(tracking::read_run(folder));
    unique = names.insert(runs.back().name).second && unique;
  }
  if (!unique)
    for (tracking::RunData& run : runs) run.name = run.folder.string();
  return runs;
}

std::string render(const ReportFlags& flags, const std::vector<tracking::RunData>& runs,
                   bool color) {
  if (flags.format == "text") return tracking::report_text(runs, color);
  if (flags.format == "json") return tracking::report_json(runs).dump(1) + "\n";
  return tracking::report_page(runs);
}

int run_report(const ReportFlags& flags, const Session& session) {
  const auto runs = read_runs(flags);
  std::filesystem::path out = flags.out;
  if (out.empty() && flags.format == "html") out = runs.front().folder / "report.html";
  if (!out.empty())
    storage::write_file_atomically(out, render(flags, runs, false), storage::AtomicFile::kPublic);
  if (session.json) {
    auto result = tracking::report_json(runs);
    if (!out.empty()) result = {{"out", out.string()}, {"num_runs", runs.size()}};
    emit_json("result", result);
  } else if (out.empty()) {
    std::cout << render(flags, runs, session.color_on(STDOUT_FILENO));
  } else {
    std::cout << out.string() << "\n";
  }
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand(
      "report", "Show what training runs did and what held them up: one page, JSON or text");
  command->group(kTrainingGroup);
  command->footer(
      "  wmtp report runs/rho1\n"
      "  wmtp report runs/a --compare runs/b --out both.html\n"
      "  wmtp report runs/a --sync-mlflow");
  const auto flags = std::make_shared<ReportFlags>();
  command->add_option("RUN", flags->runs, "Run folders (runtime.run_dir)")->required();
  command
      ->add_option("--format", flags->format,
                   "A self-contained page with curves, all numbers, or tables")
      ->type_name("html|json|text")
      ->check(CLI::IsMember({"html", "json", "text"}));
  command
      ->add_option("--out", flags->out,
                   "Where to write; default: RUN/report.html, other forms to stdout")
      ->type_name("FILE");
  command
      ->add_option("--compare", flags->compare,
                   "A further run: several are laid over each other, with the keys that differ")
      ->type_name("RUN2");
  command
      ->add_flag("--sync-mlflow", flags->sync_mlflow,
                 "Instead: send to MLflow what the runs' spools still hold, and how they ended")
      ->excludes("--format", "--out", "--compare");
  command->callback([&session, flags] {
    session.run = [&session, flags] {
      return flags->sync_mlflow ? sync_mlflow(flags->runs, session) : run_report(*flags, session);
    };
  });
}

}  // namespace wmtp::cli
