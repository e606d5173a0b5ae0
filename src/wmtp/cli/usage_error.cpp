#include "wmtp/cli/usage_error.h"

#include <fmt/format.h>

#include <algorithm>

#include "wmtp/cli/help.h"
#include "wmtp/core/printable.h"
#include "wmtp/core/suggest.h"

namespace wmtp::cli {
namespace {

using GivenWords = std::vector<std::string>;

// The command line with words[place] as `instead`.
std::string command_line(const GivenWords& words, std::size_t place, const GivenWords& instead) {
  std::string line = "wmtp";
  const auto add = [&](const std::string& word) { line += " " + shell_word(word); };
  for (std::size_t i = 0; i < words.size(); ++i)
    if (i == place)
      std::for_each(instead.begin(), instead.end(), add);
    else
      add(words[i]);
  return line;
}

std::size_t place_of(const GivenWords& words, const std::string& word) {
  return static_cast<std::size_t>(std::find(words.begin(), words.end(), word) - words.begin());
}

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

const CLI::Option* own_flag(const CLI::App& command, const std::string& word) {
  return word.starts_with('-') ? command.get_option_no_throw(word.substr(0, word.find('=')))
                               : nullptr;
}

// The long flag of the command that alone begins with the letter of an unknown short one.
std::optional<std::string> long_flag_of(const CLI::App& command, const std::string& name) {
  if (name.size() != 2 || name[0] != '-') return std::nullopt;
  std::optional<std::string> found;
  for (const CLI::Option* option : visible_flags(command))
    for (const std::string& flag : option->get_lnames()) {
      if (flag[0] != name[1]) continue;
      if (found) return std::nullopt;
      found = "--" + flag;
    }
  return found;
}

// What was meant by `launch` without the `--` before the command that its ranks run; empty where
// that is not plain.
std::string launch_line(const CLI::App& app, const GivenWords& words) {
  const CLI::App& launch = chosen_command(app);
  if (launch.get_name() != "launch" || place_of(words, "--") < words.size()) return "";
  std::size_t at = place_of(words, "launch") + 1;
  while (at < words.size()) {
    const CLI::Option* flag = own_flag(launch, words[at]);
    if (!flag) flag = own_flag(app, words[at]);
    if (!flag) break;
    const bool value_follows =
        flag->get_items_expected_max() > 0 && words[at].find('=') == std::string::npos;
    at += value_follows ? 2 : 1;
  }
  if (at >= words.size()) return "";
  if (words[at].starts_with('-'))
    return words[at].starts_with("--config") ? command_line(words, at, {"--", "train", words[at]})
                                             : "";
  GivenWords names;
  for (const CLI::App* command : visible_commands(app)) names.push_back(command->get_name());
  const bool known = std::find(names.begin(), names.end(), words[at]) != names.end();
  const auto close = known ? std::optional(words[at]) : nearest(words[at], names);
  return close ? command_line(words, at, {"--", *close}) : "";
}

Error stray_flag(const CLI::App& app, const std::string& word, const GivenWords& words) {
  // A flag nobody knows falls through to the program; the command named is the one that was meant.
  const CLI::App& meant = chosen_command(app);
  const std::string name = word.substr(0, word.find('='));
  const std::string fact = fmt::format("`{}` has no flag {}", full_name(meant), name);
  if (const std::string line = launch_line(app, words); !line.empty())
    return {ErrorKind::config, "cli", fact,
            fmt::format("`--` stands before what the ranks run: {}", line)};
  if (const auto flag = long_flag_of(meant, name))
    return {ErrorKind::config, "cli", fact,
            fmt::format(
                "did you mean `{}`? {}", *flag,
                command_line(words, place_of(words, word), {*flag + word.substr(name.size())}))};
  // Any one letter is near any other.
  return {ErrorKind::config, "cli", fact,
          name.size() == 2 ? help_hint(meant) : suggestion(meant, name, flag_names(meant))};
}

// A configuration without its flag, as other programs take it.
bool is_bare_config(const CLI::App& command, const std::string& word) {
  const CLI::Option* flag = command.get_option_no_throw("--config");
  return flag && flag->count() == 0 && (word.ends_with(".yaml") || word.ends_with(".yml"));
}

Error stray_word(const CLI::App& app, const GivenWords& words) {
  const auto [reached, word] = first_stray(app);
  if (word.starts_with('-')) return stray_flag(app, word, words);
  GivenWords names;
  const CLI::App* at = visible_commands(*reached).empty() ? &chosen_command(app) : reached;
  if (at == &app && !app.get_subcommands().empty()) at = &chosen_command(app);
  for (const CLI::App* command : visible_commands(*at)) names.push_back(command->get_name());
  if (names.empty())
    return {ErrorKind::config, "cli",
            fmt::format("`{}` does not take the argument `{}`", full_name(*at), word),
            is_bare_config(*at, word)
                ? "did you mean: " + command_line(words, place_of(words, word), {"--config", word})
                : help_hint(*at)};
  return {ErrorKind::config, "cli", fmt::format("`{}` has no command `{}`", full_name(*at), word),
          suggestion(*at, word, names)};
}

}  // namespace

Error usage_error(const CLI::App& app, const CLI::ParseError& error,
                  const std::vector<std::string>& words) {
  const CLI::App& reached = chosen_command(app);
  if (!first_stray(app).second.empty()) return stray_word(app, words);
  if (!visible_commands(reached).empty() && error.get_name() == "RequiredError")
    return {ErrorKind::config, "cli", fmt::format("`{}` needs a command", full_name(reached)),
            help_hint(reached)};
  return {ErrorKind::config, "cli", without_endless_range(error.what()), help_hint(reached)};
}

}  // namespace wmtp::cli
