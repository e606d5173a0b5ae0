// How a command hangs on the program: each file in commands/ has one function that adds its
// subcommand to the tree and, when chosen, puts what is to be done into Session::run. main.cpp
// calls it and is the only place that exits. A command sets a group (its heading in --help) and, as
// footer, examples.
#pragma once
#include <CLI/CLI.hpp>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp::cli {

inline constexpr const char* kTrainingGroup = "Train";
inline constexpr const char* kDataGroup = "Data and configuration";
inline constexpr const char* kModelGroup = "Models and checkpoints";
inline constexpr const char* kProgramGroup = "This program";

struct Session {
  bool json = false;  // stdout is JSON Lines only
  bool quiet = false;
  bool verbose = false;
  std::string color;               // auto | always | never; empty: not given, as auto
  std::string program;             // argv[0]
  std::vector<std::string> words;  // what follows it on the command line
  std::function<int()> run;        // set by the chosen command; returns the exit code

  bool color_on(int fd) const;  // resolves `auto` by terminal and NO_COLOR
};

// One JSON line on stdout, with `type` first and `ts` (UTC) unless `stamped` is false.
void emit_json(std::string_view type, const nlohmann::ordered_json& fields, bool stamped = true);

// The whole command tree; also what `completion` and the help tests walk.
void add_commands(CLI::App& app, Session& session);
// Names, global flags and help of the program itself.
void set_up_program(CLI::App& app, Session& session);

void add_bench(CLI::App& app, Session& session);
void add_checkpoint(CLI::App& app, Session& session);
void add_completion(CLI::App& app, Session& session);
void add_data(CLI::App& app, Session& session);
void add_doctor(CLI::App& app, Session& session);
void add_init(CLI::App& app, Session& session);
void add_launch(CLI::App& app, Session& session);
void add_migrate(CLI::App& app, Session& session);
void add_plan(CLI::App& app, Session& session);
void add_report(CLI::App& app, Session& session);
void add_score(CLI::App& app, Session& session);
void add_train(CLI::App& app, Session& session);
void add_validate(CLI::App& app, Session& session);
void add_tokenizer(CLI::App& app, Session& session);
void add_version(CLI::App& app, Session& session);

}  // namespace wmtp::cli
