// What `wmtp plan` is asked.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "wmtp/cli/config_flags.h"

namespace wmtp::cli {

struct PlanFlags {
  ConfigFlags config;
  std::string model;                                              // in place of a configuration
  std::optional<std::int64_t> batch_size, max_length, lora_rank;  // with it
  int world_size = 1, ranks_per_node = 0;                         // 0: as the device has in a node
  std::string gpu;                                                // empty: the device here
  std::optional<double> memory_gib, price_per_gpu_hour;
  std::vector<std::string> sweep;  // KEY=a,b,c
  std::string out, html;
  bool choose = false, no_calibrate = false, no_check_paths = false, tables = false;

  // What is planned: the file of --config, or --model with the usual rest. Error config for
  // neither.
  config::LoadRequest request() const;
  // The chooser sets the samples of a step too: nobody named them.
  bool any_samples() const { return !model.empty() && !batch_size; }
};

}  // namespace wmtp::cli
