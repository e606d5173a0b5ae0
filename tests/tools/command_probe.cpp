// Command lines as the program reads them, none of them run: a line of JSON on stdin is the words
// of one, without the program's name; a line on stdout says what is wrong with it.
//   ["launch", "--nproc", "2", "--", "train", "--config", "a.yaml"]
//   {"error": null}     or {"error": "...", "unknown": ["--configs"]}
// `unknown` are words that no command or flag takes; there are none where something is only
// missing. What `launch` is to start is read too.
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

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);)
    std::cout << answer(wmtp::parse_json(line, "stdin").get<Words>()).dump() << std::endl;
}
