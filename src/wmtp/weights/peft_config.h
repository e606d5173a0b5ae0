// adapter_config.json of the PEFT package: what wmtp reads of it, what it refuses, what it writes.
// No LibTorch here.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/core/json.h"

namespace wmtp::weights {

struct PeftConfig {
  std::string base_model;  // base_model_name_or_path; never missing in what we write
  std::int64_t rank = 8;
  double alpha = 8, dropout = 0;
  bool rslora = false;
  // Module names or their ends. Read: empty when the file has a pattern or "all-linear"; which
  // modules are adapted the tensors say.
  std::vector<std::string> targets;

  bool operator==(const PeftConfig&) const = default;
};

// Keys PEFT defaults are defaults here; unknown keys are ignored. Error config that names the key
// and its value for whatever changes the computation in a way wmtp does not have (DoRA, biases,
// rank patterns, modules_to_save, ...), and for values of a wrong type.
PeftConfig parse_peft_config(const Json& json, std::string_view origin);
PeftConfig read_peft_config(const std::filesystem::path& path);

// The file's text: indent 2, keys sorted, newline at the end.
std::string peft_config_text(const PeftConfig& config);

}  // namespace wmtp::weights
