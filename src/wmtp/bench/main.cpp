// The program `wmtp-bench`, which `wmtp bench` becomes, and `wmtp completion`.
#include <vector>

#include "wmtp/bench/bench.h"
#include "wmtp/cli/program.h"

namespace {

// All commands there are: those of wmtp, with the benchmarks in place of the way to them.
void add_all(CLI::App& app, wmtp::cli::Session& session) {
  wmtp::cli::add_commands(app, session);
  app.remove_subcommand(app.get_subcommand("bench"));
  wmtp::bench::add_bench(app, session);
}

}  // namespace

int main(int argc, char** argv) {
  const auto command = wmtp::cli::command_word(argc, argv);
  if (command == "completion") return wmtp::cli::run_program(argc, argv, add_all);
  // Called by its own name it needs no word that says so.
  std::vector<char*> words(argv, argv + argc);
  char bench[] = "bench";
  if (command != bench) words.insert(words.begin() + 1, bench);
  words.push_back(nullptr);
  return wmtp::cli::run_program(static_cast<int>(words.size()) - 1, words.data(),
                                wmtp::bench::add_bench);
}
