#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>

#include "wmtp/cli/command.h"
#include "wmtp/cli/help.h"

namespace wmtp::cli {
namespace {

// One node of the command tree: the words that may follow it.
struct Words {
  std::string path;  // "tokenizer encode"; empty for the program
  std::vector<const CLI::App*> commands;
  std::vector<std::string> flags;
};

void collect(const CLI::App& app, const std::string& path, std::vector<Words>& all) {
  all.push_back({path, visible_commands(app), flag_names(app)});
  for (const CLI::App* command : visible_commands(app))
    collect(*command, path.empty() ? command->get_name() : path + " " + command->get_name(), all);
}

std::vector<Words> tree(const CLI::App& app) {
  std::vector<Words> all;
  collect(app, "", all);
  return all;
}

std::string words_of(const Words& node) {
  std::vector<std::string> words;
  for (const CLI::App* command : node.commands) words.push_back(command->get_name());
  words.insert(words.end(), node.flags.begin(), node.flags.end());
  return fmt::format("{}", fmt::join(words, " "));
}

std::string without_quotes(std::string text) {
  std::erase_if(text, [](char c) { return c == '\'' || c == '`' || c == '"'; });
  return text;
}

// The words before the cursor that are commands make the path; flags are passed over. What follows
// `--` (wmtp launch ... -- train) is completed as a command line of its own.
constexpr const char* kWalk =
    "  local path='' word next\n"
    "  for word in {words}; do\n"
    "    [[ $word == -- ]] && path='' && continue\n"
    "    [[ $word == -* ]] && continue\n"
    "    next=\"${{path:+$path }}$word\"\n"
    "    case \"$next\" in\n"
    "      {known}) path=$next ;;\n"
    "    esac\n"
    "  done\n"
    "  case \"$path\" in\n";

std::string walk(const std::vector<Words>& nodes, std::string_view words) {
  std::vector<std::string> known;
  for (const Words& node : nodes)
    if (!node.path.empty()) known.push_back("'" + node.path + "'");
  return fmt::format(fmt::runtime(kWalk), fmt::arg("words", words),
                     fmt::arg("known", fmt::join(known, "|")));
}

std::string bash_script(const CLI::App& app) {
  const std::vector<Words> nodes = tree(app);
  std::string text = "# bash completion of wmtp:  source <(wmtp completion bash)\n_wmtp() {\n";
  text += walk(nodes, "\"${COMP_WORDS[@]:1:COMP_CWORD-1}\"");
  for (const Words& node : nodes)
    text += fmt::format(
        "    '{}') COMPREPLY=($(compgen -W '{}' -- \"${{COMP_WORDS[COMP_CWORD]}}\")) ;;\n",
        node.path, words_of(node));
  return text + "  esac\n}\ncomplete -o default -F _wmtp wmtp\n";
}

std::string zsh_script(const CLI::App& app) {
  const std::vector<Words> nodes = tree(app);
  std::string text =
      "#compdef wmtp\n# zsh completion of wmtp:  source <(wmtp completion zsh)\n_wmtp() {\n";
  text += walk(nodes, "${words[2,CURRENT-1]}");
  for (const Words& node : nodes)
    text += fmt::format("    '{}') compadd -- {} ;;\n", node.path, words_of(node));
  return text + "  esac\n  _files\n}\ncompdef _wmtp wmtp\n";
}

std::string fish_script(const CLI::App& app) {
  std::string text = "# fish completion of wmtp:  wmtp completion fish | source\n";
  for (const Words& node : tree(app)) {
    std::string condition = "__fish_use_subcommand";
    if (!node.path.empty()) {
      condition.clear();
      std::string_view rest = node.path;
      while (!rest.empty()) {
        const std::string_view word = rest.substr(0, rest.find(' '));
        condition += fmt::format("{}__fish_seen_subcommand_from {}",
                                 condition.empty() ? "" : "; and ", word);
        rest.remove_prefix(std::min(word.size() + 1, rest.size()));
      }
    }
    for (const CLI::App* command : node.commands)
      text += fmt::format("complete -c wmtp -n '{}' -a {} -d '{}'\n", condition,
                          command->get_name(), without_quotes(command->get_description()));
    for (const std::string& flag : node.flags)
      text += fmt::format("complete -c wmtp -n '{}' {}\n", condition,
                          flag.starts_with("--") ? "-l " + flag.substr(2) : "-s " + flag.substr(1));
  }
  return text;
}

}  // namespace

void add_completion(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("completion", "Print a completion script for a shell");
  command->group(kProgramGroup);
  command->footer(
      "  wmtp completion bash > ~/.local/share/bash-completion/completions/wmtp\n"
      "  wmtp completion zsh > ~/.zfunc/_wmtp\n"
      "  wmtp completion fish > ~/.config/fish/completions/wmtp.fish");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "Which shell")
      ->type_name("bash|zsh|fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([&app, &session, shell] {
    session.run = [&app, shell] {
      std::cout << (*shell == "bash"  ? bash_script(app)
                    : *shell == "zsh" ? zsh_script(app)
                                      : fish_script(app));
      return 0;
    };
  });
}

}  // namespace wmtp::cli
