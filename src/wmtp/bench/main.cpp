// The program `wmtp-bench`, which `wmtp bench` becomes.
#include <vector>

#include "wmtp/bench/bench.h"
#include "wmtp/cli/program.h"

int main(int argc, char** argv) {
  // Called by its own name it needs no word that says so.
  std::vector<char*> words(argv, argv + argc);
  char bench[] = "bench";
  if (wmtp::cli::command_word(argc, argv) != bench) words.insert(words.begin() + 1, bench);
  words.push_back(nullptr);
  return wmtp::cli::run_program(static_cast<int>(words.size()) - 1, words.data(),
                                wmtp::bench::add_bench);
}
