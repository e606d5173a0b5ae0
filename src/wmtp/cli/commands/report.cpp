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
  std::string compare, format = "html", out, address;
  bool sync_mlflow = false, follow = false;

  std::vector<std::string> folders() const {
    std::vector<std::string> all = runs;
    if (!compare.empty()) all.push_back(compare);
    return all;
  }
};

std::filesystem::path default_out(const std::string& folder) {
  return std::filesystem::path(folder) / "report.html";
}

std::string render(const ReportFlags& flags, const std::vector<tracking::RunData>& runs,
                   bool color) {
  if (flags.format == "text") return tracking::report_text(runs, color);
  if (flags.format == "json") return tracking::report_json(runs).dump(1) + "\n";
  return tracking::report_page(runs);
}

int run_report(const ReportFlags& flags, const Session& session) {
  const auto runs = read_runs(flags.folders());
  std::filesystem::path out = flags.out;
  if (out.empty() && flags.format == "html") out = default_out(flags.runs.front());
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

int run_live(const ReportFlags& flags, const Session& session) {
  LiveReport live{.folders = flags.folders(), .out = flags.out, .address = {}};
  if (!flags.address.empty()) live.address = http::parse_loopback(flags.address, "--serve");
  if (!flags.out.empty() && !flags.follow)
    throw Error(ErrorKind::config, "report", "--serve writes no file, and --out names one",
                "with --follow the page is served and written");
  if (live.out.empty() && flags.follow) live.out = default_out(flags.runs.front());
  return report_live(live, session);
}

void add_live_flags(CLI::App& command, ReportFlags& flags) {
  command
      .add_flag("--follow", flags.follow,
                "Write the page again whenever the runs have grown, until they have ended")
      ->excludes("--format", "--sync-mlflow");
  command
      .add_option("--serve", flags.address,
                  "Serve the page on this machine's loopback until Ctrl-C; port 0: a free one")
      ->type_name("ADDRESS")
      ->excludes("--format", "--sync-mlflow");
}

}  // namespace

std::vector<tracking::RunData> read_runs(const std::vector<std::string>& folders) {
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

void add_report(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand(
      "report", "Show what training runs did and what held them up: one page, JSON or text");
  command->group(kTrainingGroup);
  command->footer(
      "  wmtp report runs/rho1\n"
      "  wmtp report runs/a --compare runs/b --out both.html\n"
      "  wmtp report runs/a --follow --serve 127.0.0.1:8000");
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
  add_live_flags(*command, *flags);
  command->callback([&session, flags] {
    session.run = [&session, flags] {
      if (flags->follow || !flags->address.empty()) return run_live(*flags, session);
      return flags->sync_mlflow ? sync_mlflow(flags->runs, session) : run_report(*flags, session);
    };
  });
}

}  // namespace wmtp::cli
