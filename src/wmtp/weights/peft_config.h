// adapter_config.json of the PEFT package: what wmtp reads of it, what it refuses, what it writes.
// No LibTorch here.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wmtp/core/json.h"

namespace wmtp::weights {

struct PeftConfig {
  std::string base_model;  // base_model_name_or_path; never missing in what we write
  std::int64_t rank = 8;
  double alpha = 8, dropout = 0;
  bool rslora = false;
  // Module names or their ends, or (only read) one pattern instead: a regular expression, or
  // "all-linear". peft/peft_targets.h says which modules these are.
  std::vector<std::string> targets;
  std::string target_pattern = {};
  // Only read: what is left out of them.
  std::vector<std::string> excluded = {};
  std::string exclude_pattern = {};
  std::vector<std::int64_t> layers = {};         // layers_to_transform; empty: all
  std::vector<std::string> layers_pattern = {};  // what the list of layers is called
  // Ranks and alphas of single modules, by patterns of the ends of their names, in the file's
  // order.
  std::vector<std::pair<std::string, std::int64_t>> rank_pattern = {};
  std::vector<std::pair<std::string, double>> alpha_pattern = {};

  bool operator==(const PeftConfig&) const = default;
};

// Keys PEFT defaults are defaults here; unknown keys are ignored. Error config that names the key
// and its value for whatever changes the computation in a way wmtp does not have (DoRA, biases,
// modules_to_save, ...), and for values of a wrong type. Patterns come in the order of their keys;
// read_peft_config has them in the file's.
PeftConfig parse_peft_config(const Json& json, std::string_view origin);
PeftConfig read_peft_config(const std::filesystem::path& path);

// The file's text: indent 2, keys sorted, newline at the end.
std::string peft_config_text(const PeftConfig& config);

}  // namespace wmtp::weights
