// Which modules an adapter_config.json adapts, and how, by the rules of the PEFT package.
#pragma once
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "wmtp/weights/peft/python_regex.h"
#include "wmtp/weights/peft_config.h"

namespace wmtp::weights {

// Modules are named as in the base model ("model.layers.3.self_attn.q_proj"), and are linear maps
// inside it.
class PeftTargets {
 public:
  // `origin` names the file in errors. Error config for patterns PythonRegex refuses.
  PeftTargets(const PeftConfig& config, std::string_view origin);

  bool adapts(std::string_view module) const;
  std::int64_t rank(std::string_view module) const;
  double alpha(std::string_view module) const;

 private:
  bool is_targeted(std::string_view module) const;
  bool is_excluded(std::string_view module) const;
  bool is_in_layers(std::string_view module) const;

  PeftConfig config_;
  std::vector<PythonRegex> target_, exclude_;  // one or none each
  std::vector<PythonRegex> layers_;
  std::vector<std::pair<PythonRegex, std::int64_t>> ranks_;
  std::vector<std::pair<PythonRegex, double>> alphas_;
};

}  // namespace wmtp::weights
