// The command line of a training script, taken apart: what starts the ranks, the script, its flags.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace wmtp::config {

struct ScriptFlag {
  std::string written;              // "--lr"
  std::string name;                 // "lr": without dashes in front, `_` as `-`
  std::vector<std::string> values;  // none: a switch
};

struct ScriptCall {
  std::vector<std::string> variables;      // NAME=value before the command
  std::vector<std::string> starter;        // "srun -N 2": what starts ranks by itself
  std::vector<ScriptFlag> launcher_flags;  // of torchrun or accelerate
  std::string script;                      // "train.py", or a module
  std::vector<ScriptFlag> flags;           // of the script
  std::vector<std::string> arguments;      // of the script, that no flag takes
};

// Whether `name` is one of `names`, which spaces part.
bool has_name(std::string_view names, std::string_view name);
// Words as a POSIX shell splits them, without expanding anything. Error config for an open quote.
std::vector<std::string> shell_words(std::string_view line);
// Error config where no Python script is called.
ScriptCall parse_script_call(std::string_view line);

}  // namespace wmtp::config
