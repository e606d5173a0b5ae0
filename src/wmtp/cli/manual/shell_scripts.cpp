#include "wmtp/cli/manual/shell_scripts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "wmtp/cli/manual/command_words.h"

namespace wmtp::cli {
namespace {

using Nodes = std::vector<CommandWords>;

std::string words_of(const CommandWords& node) {
  std::vector<std::string> words = node.first_words;
  for (const CLI::App* command : node.commands) words.push_back(command->get_name());
  for (const FlagWords& flag : node.flags)
    words.insert(words.end(), flag.names.begin(), flag.names.end());
  return fmt::format("{}", fmt::join(words, " "));
}

std::string known_paths(const Nodes& nodes, std::string_view between) {
  std::vector<std::string> paths;
  for (const CommandWords& node : nodes)
    if (!node.path.empty()) paths.push_back("'" + node.path + "'");
  return fmt::format("{}", fmt::join(paths, between));
}

// Flags with a value by the words it may be, as 'path:--flag'; those without a list under "".
std::map<std::string, std::vector<std::string>> flags_by_choices(const Nodes& nodes) {
  std::map<std::string, std::vector<std::string>> found;
  for (const CommandWords& node : nodes)
    for (const FlagWords& flag : node.flags)
      if (flag.takes_value)
        for (const std::string& name : flag.names)
          found[fmt::format("{}", fmt::join(flag.choices, " "))].push_back(
              fmt::format("'{}:{}'", node.path, name));
  return found;
}

// bash and zsh: `at` is the path of commands.
constexpr const char* kWalk =
    "  for word in {words}; do\n"
    "    [[ $word == -- ]] && at='' && continue\n"
    "    [[ $word == -* ]] && continue\n"
    "    next=\"${{at:+$at }}$word\"\n"
    "    case \"$next\" in\n"
    "      {known}) at=$next ;;\n"
    "    esac\n"
    "  done\n";

std::string walk(const Nodes& nodes, std::string_view words) {
  return fmt::format(fmt::runtime(kWalk), fmt::arg("words", words),
                     fmt::arg("known", known_paths(nodes, "|")));
}

// A case for each list of values and one for each command; {} in a form is a list of words.
std::string cases(const Nodes& nodes, std::string_view value_form, std::string_view no_value,
                  std::string_view word_form) {
  std::string text = "  case \"$at:$flag\" in\n";
  for (const auto& [choices, flags] : flags_by_choices(nodes))
    text += fmt::format(
        "    {}) {}; return ;;\n", fmt::join(flags, "|"),
        choices.empty() ? std::string(no_value) : fmt::format(fmt::runtime(value_form), choices));
  text += "  esac\n  case \"$at\" in\n";
  for (const CommandWords& node : nodes)
    text += fmt::format("    '{}') {} ;;\n", node.path,
                        fmt::format(fmt::runtime(word_form), words_of(node)));
  return text + "  esac\n";
}

// For single quotes of fish.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish_words(const CommandWords& node) {
  std::string text;
  for (const CLI::App* command : node.commands)
    text += fmt::format("      printf '%s\\t%s\\n' {} {}\n", command->get_name(),
                        quoted(command->get_description()));
  std::vector<std::string> others = node.first_words;
  for (const FlagWords& flag : node.flags)
    others.insert(others.end(), flag.names.begin(), flag.names.end());
  return text + fmt::format("      printf '%s\\n' {}\n", fmt::join(others, " "));
}

constexpr const char* kFishWalk =
    "# fish completion of wmtp:  wmtp completion fish | source\n"
    "function __wmtp_words\n"
    "  set -l at ''\n"
    "  set -l given ''\n"
    "  set -l before (commandline -opc)\n"
    "  set -l flag $before[-1]\n"
    "  set -l now (commandline -ct)\n"
    "  for word in $before[2..]\n"
    "    switch $word\n"
    "      case '--'\n"
    "        set at ''\n"
    "      case '-*'\n"
    "      case '*'\n"
    "        set -l next (string trim -- \"$at $word\")\n"
    "        contains -- $next {known}; and set at $next\n"
    "    end\n"
    "  end\n"
    "  if string match -qr '^--[^=]+=' -- $now\n"
    "    set flag (string replace -r '=.*' '' -- $now)\n"
    "    set given $flag=\n"
    "  end\n"
    "  switch \"$at:$flag\"\n";

}  // namespace

std::string bash_script(const CLI::App& app) {
  const Nodes nodes = command_words(app);
  return "# bash completion of wmtp:  source <(wmtp completion bash)\n"
         "_wmtp() {\n"
         "  local at='' word next\n"
         "  local now=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  # --flag=value is three words here.\n"
         "  [[ $now == = ]] && now=''\n"
         "  [[ $flag == = ]] && flag=${COMP_WORDS[COMP_CWORD-2]}\n" +
         walk(nodes, "\"${COMP_WORDS[@]:1:COMP_CWORD-1}\"") +
         cases(nodes, "COMPREPLY=($(compgen -W '{}' -- \"$now\"))", "COMPREPLY=()",
               "COMPREPLY=($(compgen -W '{}' -- \"$now\"))") +
         // Where nothing fits, readline's own: file names.
         "}\ncomplete -o default -F _wmtp wmtp\n";
}

std::string zsh_script(const CLI::App& app) {
  const Nodes nodes = command_words(app);
  return "#compdef wmtp\n"
         "# zsh completion of wmtp:  wmtp completion zsh > a folder of $fpath, as _wmtp\n"
         "_wmtp() {\n"
         "  local at='' word next flag=${words[CURRENT-1]}\n"
         "  [[ $PREFIX == --*=* ]] && flag=${PREFIX%%=*} && compset -P 1 '*='\n" +
         walk(nodes, "${words[2,CURRENT-1]}") +
         cases(nodes, "compadd -- {}", "_files", "compadd -- {}") +
         "  _files\n}\n"
         "# Read by autoload it is the body of the function, by source it is not.\n"
         "if [[ $funcstack[1] == _wmtp ]]; then _wmtp \"$@\"; else compdef _wmtp wmtp; fi\n";
}

std::string fish_script(const CLI::App& app) {
  const Nodes nodes = command_words(app);
  std::string text =
      fmt::format(fmt::runtime(kFishWalk), fmt::arg("known", known_paths(nodes, " ")));
  for (const auto& [choices, flags] : flags_by_choices(nodes)) {
    const std::string action = choices.empty()
                                   ? "__fish_complete_path (string replace -- \"$given\" '' $now)"
                                   : "printf '%s\\n' " + choices;
    text +=
        fmt::format("    case {}\n      {} | string replace -r '^' -- \"$given\"\n      return\n",
                    fmt::join(flags, " "), action);
  }
  text += "  end\n  switch $at\n";
  for (const CommandWords& node : nodes)
    text += fmt::format("    case '{}'\n{}", node.path, fish_words(node));
  return text +
         "  end\n"
         "  __fish_complete_path $now\n"
         "end\n"
         "complete -c wmtp -f -a '(__wmtp_words)'\n";
}

}  // namespace wmtp::cli
