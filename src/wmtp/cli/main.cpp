// The program `wmtp`.
#include "wmtp/cli/commands/bench.h"
#include "wmtp/cli/program.h"

int main(int argc, char** argv) {
  // What is made of the command tree has the benchmarks in it, which only wmtp-bench knows.
  const auto command = wmtp::cli::command_word(argc, argv);
  if (command == "bench" || command == "completion") wmtp::cli::become_bench(argv);
  return wmtp::cli::run_program(argc, argv, wmtp::cli::add_commands);
}
