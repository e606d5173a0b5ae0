// The command tree as a shell completes it: which words may follow which command, and what the
// value of a flag may be.
#pragma once
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace wmtp::cli {

struct FlagWords {
  std::vector<std::string> names;  // "--config", "-q"
  bool takes_value = false;
  std::vector<std::string> choices;  // words its value may be; empty: a file name, or free
};

// One command.
struct CommandWords {
  std::string path;  // "tokenizer encode"; empty for the program
  std::vector<const CLI::App*> commands;
  std::vector<FlagWords> flags;          // those of its parents too
  std::vector<std::string> first_words;  // choices of its arguments: "bash" of `completion`
};

// The program first, every command before its own; hidden things are left out.
std::vector<CommandWords> command_words(const CLI::App& app);

// The words that an option takes by its help: those of `auto|never|PATH` that are no placeholder,
// or those that its check lists. Empty: no such list.
std::vector<std::string> choices_of(const CLI::Option& option);

}  // namespace wmtp::cli
