// `wmtp migrate`: a configuration of the Python project `weighted_mtp`, or the command line of a
// training script around PyTorch's FSDP, as a configuration of ours, with what became of each key
// or flag and why. What cannot be carried over is said, never left out in silence.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/config/load.h"
#include "wmtp/config/yaml/problems.h"

namespace wmtp::config {

struct Change {
  enum class Action { unchanged, renamed, translated, dropped, filled_in, not_migrated };

  Action action = Action::unchanged;
  std::string key;    // as it was: "training.td_lambda", "--lr"; filled_in: the key of ours
  std::string where;  // "old.yaml:12:3"
  std::string now;    // what it is now: a key, or `key: value` of several; empty: nothing
  std::string why;
  Place place = {};  // of `where`
};
std::string_view name_of(Change::Action action);  // "not_migrated"

struct Migration {
  std::vector<Change> changes;       // one for each key or flag at least, in the order of the file
  std::string yaml;                  // the result; what was not migrated stands there as comments
  std::filesystem::path below;       // the old layer that the result has taken in; empty: none
  std::string command;               // of a script: what starts the run, up to the file's name
  std::vector<Problem> problems;     // why the result is refused, at places of the old file
  std::vector<std::string> notices;  // legal, but the user should know

  std::size_t count(Change::Action action) const;
};

struct MigrateRequest {
  std::filesystem::path file;
  std::optional<std::string> defaults;  // the old layer below it, as of LoadRequest
  Environment env;                      // variables that are not set here are a notice
};

// Throws ConfigError where a file is no YAML that our own loader would take.
Migration migrate_file(const MigrateRequest& request);

// `torchrun --nproc_per_node 8 train.py --lr 1e-4`, quoted as for a shell. Throws Error config
// where that is no command line of a Python script.
Migration migrate_script(const std::string& command_line, const Environment& env);

}  // namespace wmtp::config
