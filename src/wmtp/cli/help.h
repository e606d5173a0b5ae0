// Help pages, drawn from the command tree: groups, aligned columns, examples.
#pragma once
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace wmtp::cli {

std::string help_text(const CLI::App& app, bool color);

// Parts of it, for other pages: "--config TEXT" and what it does, arguments and flags of the
// command itself; "wmtp train [flags]".
struct HelpRow {
  std::string left, right;
};
std::vector<HelpRow> flag_rows(const CLI::App& app);
std::string usage_line(const CLI::App& app);

// The command the user got to: the deepest one parsed so far.
const CLI::App& chosen_command(const CLI::App& app);
// "wmtp tokenizer encode".
std::string full_name(const CLI::App& app);

// What the tree offers, hidden things left out.
std::vector<const CLI::App*> visible_commands(const CLI::App& app);
std::vector<const CLI::Option*> visible_flags(const CLI::App& app);
std::vector<std::string> names_of(const CLI::Option& option);  // "-q", "--quiet"; of arguments none
std::vector<std::string> flag_names(const CLI::App& app);      // "--json", "-q", ...; parents' too

}  // namespace wmtp::cli
