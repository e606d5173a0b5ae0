// The program `wmtp`.
#include "wmtp/cli/commands/bench.h"
#include "wmtp/cli/program.h"

int main(int argc, char** argv) {
  if (wmtp::cli::command_word(argc, argv) == "bench") wmtp::cli::become_bench(argv);
  return wmtp::cli::run_program(argc, argv, wmtp::cli::add_commands);
}
