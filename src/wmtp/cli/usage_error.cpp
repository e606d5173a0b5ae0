#include "wmtp/cli/usage_error.h"

#include <fmt/format.h>

#include "wmtp/cli/help.h"
#include "wmtp/core/suggest.h"

namespace wmtp::cli {
namespace {

std::string help_hint(const CLI::App& app) {
  return fmt::format("see `{} --help`", full_name(app));
}

std::string suggestion(const CLI::App& app, const std::string& word,
                       const std::vector<std::string>& names) {
  const auto close = nearest(word, names);
  return close ? fmt::format("did you mean `{}`?", *close) : help_hint(app);
}

// CLI11 spells out the largest double where a number has no upper limit.
std::string without_endless_range(std::string text) {
  const std::size_t range = text.find(" not in range ");
  const bool endless = text.find(" 17976931348623157") != text.npos;
  return range == text.npos || !endless ? text : text.substr(0, range) + " is too small";
}

// The first word nobody took, and the command it was given to.
std::pair<const CLI::App*, std::string> first_stray(const CLI::App& app) {
  for (const CLI::App* at = &app;;) {
    const std::vector<std::string> left = at->remaining(false);
    for (const std::string& word : left)
      if (word != "--") return {at, word};
    if (at->get_subcommands().empty()) return {at, ""};
    at = at->get_subcommands().back();
  }
}

Error stray_word(const CLI::App& app) {
  const auto [reached, word] = first_stray(app);
  if (word.starts_with('-')) {
    // A flag nobody knows falls through to the program; the command named is the one that was
    // meant.
    const CLI::App& meant = chosen_command(app);
    const std::string name = word.substr(0, word.find('='));
    return {ErrorKind::config, "cli", fmt::format("`{}` has no flag {}", full_name(meant), name),
            suggestion(meant, name, flag_names(meant))};
  }
  std::vector<std::string> names;
  const CLI::App* at = visible_commands(*reached).empty() ? &chosen_command(app) : reached;
  if (at == &app && !app.get_subcommands().empty()) at = &chosen_command(app);
  for (const CLI::App* command : visible_commands(*at)) names.push_back(command->get_name());
  if (names.empty())
    return {ErrorKind::config, "cli",
            fmt::format("`{}` does not take the argument `{}`", full_name(*at), word),
            help_hint(*at)};
  return {ErrorKind::config, "cli", fmt::format("`{}` has no command `{}`", full_name(*at), word),
          suggestion(*at, word, names)};
}

}  // namespace

Error usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& reached = chosen_command(app);
  if (!first_stray(app).second.empty()) return stray_word(app);
  if (!visible_commands(reached).empty() && error.get_name() == "RequiredError")
    return {ErrorKind::config, "cli", fmt::format("`{}` needs a command", full_name(reached)),
            help_hint(reached)};
  return {ErrorKind::config, "cli", without_endless_range(error.what()), help_hint(reached)};
}

}  // namespace wmtp::cli
