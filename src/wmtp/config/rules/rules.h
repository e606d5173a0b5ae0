// Rules between keys; they need neither data, models nor a memory plan. All breaches are reported.
#pragma once
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wmtp/config/config.h"

namespace wmtp::config {

struct RuleContext {
  const Config& config;
  std::optional<int> world_size;
  // Reports a breach that these keys make together, under the name of the first.
  std::function<void(std::initializer_list<std::string_view> keys, std::string fact)> fail;
  std::vector<std::string>& notices;
};

void check_model_rules(const RuleContext& context);      // experiment, models, LoRA, URLs
void check_data_rules(const RuleContext& context);       // sampling, batches
void check_objective_rules(const RuleContext& context);  // critic, verifiable, rho1
void check_run_rules(const RuleContext& context);        // scheduler, precision, device, saving

}  // namespace wmtp::config
