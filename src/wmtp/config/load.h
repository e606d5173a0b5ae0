// From files to one resolved configuration: built-in defaults < defaults.yaml < what the stage file
// extends < the stage file < overrides, left to right; then interpolation, types, ranges and rules.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/config/config.h"
#include "wmtp/core/json.h"

namespace wmtp::config {

// The environment, handed in by cli/ (config/ never reads it).
using Environment = std::function<std::optional<std::string>(const std::string&)>;

struct LoadRequest {
  std::filesystem::path file;  // the stage file
  std::optional<std::string>
      text;  // its text where the caller has it: `file` is then only its name
  std::optional<std::string>
      defaults;  // a path, "none", or empty: beside the file, its parent, installed
  std::filesystem::path installed_defaults;  // tried last; may be empty
  std::vector<std::string> overrides;        // key.path=value
  std::vector<std::pair<std::string, std::string>>
      flags;                      // applied last: "--resume", key.path=value
  Environment env;                // empty: no variable is set
  bool check_paths = true;        // inputs must exist
  bool check_available = true;    // refuse keys that nothing acts on yet
  std::optional<int> world_size;  // ranks, where known: rules that need it are checked
};

enum class ResumeClass { same, free, host };  // S, F, H of docs/config.md

struct ResolvedKey {
  std::string key;     // "training.learning_rate"
  OrderedJson value;   // as shown: text from the environment stands as its reference
  std::string digest;  // of the real value where `value` is a reference, otherwise empty
  std::string origin;  // "configs/defaults.yaml:14", "--override 2", "built-in", "derived: ..."
  ResumeClass resume = ResumeClass::same;
  bool agreed = true;  // ranks must agree on it (all but logging, cache folders, threads)
  // What was written, where some of the value came from the environment, by way of other keys too
  // and in paths too; null elsewhere. For texts that leave the machine.
  OrderedJson reference = nullptr;
};

struct ResolvedConfig {
  Config config;
  std::vector<ResolvedKey> keys;     // every key of the schema, in its order
  std::vector<std::string> notices;  // legal, but the user should know

  std::string hash() const;                         // SHA-256 hex; class H left out
  std::string agreement_hash() const;               // SHA-256 hex; what ranks compare
  std::string to_yaml(bool origins = false) const;  // loads back to the same configuration
  // (key, canonical value) of all that ranks must agree on: to name the differing key.
  std::vector<std::pair<std::string, std::string>> flat() const;
};

// Throws ConfigError (problems.h) with every problem of every layer. Takes milliseconds.
ResolvedConfig load_config(const LoadRequest& request);

// The keys that differ, as "training.learning_rate: 1e-05 -> 0.0001", in schema order.
std::vector<std::string> differences(const ResolvedConfig& a, const ResolvedConfig& b);

}  // namespace wmtp::config
