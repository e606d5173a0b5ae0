// Command lines as the program reads them, none of them run: a line of JSON on stdin is the words
// of one, without the program's name; a line on stdout says what is wrong with it.
//   ["launch", "--nproc", "2", "--", "train", "--config", "a.yaml"]
//   {"error": null}     or {"error": "...", "unknown": ["--configs"]}
// `unknown` are words that no command or flag takes; there are none where something is only
// missing. What `launch` is to start is read too. With the argument `tree` it prints every command
// in place of that, as CLI11 has it (tests/integration/test_manual.py):
//   {"path": "data index", "description": "..", "options": [{"names": ["--out"], "value": true,
//    "type": "TEXT", "description": ".."}]}
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "wmtp/bench/bench.h"
#include "wmtp/cli/command.h"
#include "wmtp/core/json.h"

namespace {

using Words = std::vector<std::string>;

wmtp::OrderedJson answer(const Words& words) {
  CLI::App app;
  wmtp::cli::Session session;
  wmtp::cli::set_up_program(app, session);
  const auto command =
      std::ranges::find_if(words, [](const std::string& word) { return !word.starts_with('-'); });
  if (command != words.end() && *command == "bench")
    wmtp::bench::add_bench(app, session);
  else
    wmtp::cli::add_commands(app, session);
  Words last_first(words.rbegin(), words.rend());
  try {
    app.parse(last_first);
  } catch (const CLI::CallForHelp&) {
  } catch (const CLI::ParseError& error) {
    return {{"error", error.what()}, {"unknown", app.remaining(/*recurse=*/true)}};
  }
  const auto inner = std::ranges::find(words, "--");
  if (inner != words.end()) return answer({inner + 1, words.end()});
  return {{"error", nullptr}};
}

wmtp::OrderedJson described(const CLI::Option& option) {
  Words names;
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  return {{"names", names},
          {"value", option.get_items_expected_max() > 0},
          {"type", option.get_type_name()},
          {"description", option.get_description()}};
}

void print_tree(const CLI::App& app, const std::string& path) {
  wmtp::OrderedJson options = wmtp::OrderedJson::array();
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) options.push_back(described(*option));
  std::cout << wmtp::OrderedJson{{"path", path},
                                 {"description", app.get_description()},
                                 {"options", options}}
                   .dump()
            << std::endl;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_group().empty())
      print_tree(*command, path + (path.empty() ? "" : " ") + command->get_name());
}

int print_whole_tree() {
  CLI::App app;
  wmtp::cli::Session session;
  wmtp::cli::set_up_program(app, session);
  wmtp::cli::add_commands(app, session);
  app.remove_subcommand(app.get_subcommand("bench"));
  wmtp::bench::add_bench(app, session);
  print_tree(app, "");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "tree") return print_whole_tree();
  for (std::string line; std::getline(std::cin, line);)
    std::cout << answer(wmtp::parse_json(line, "stdin").get<Words>()).dump() << std::endl;
}
