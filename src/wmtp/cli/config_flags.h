// The flags of commands that read a configuration: --config, --defaults, --override.
#pragma once
#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

#include "wmtp/config/load.h"

namespace wmtp::cli {

struct ConfigFlags {
  std::string file;
  std::string defaults;  // empty: not given
  std::vector<std::string> overrides;

  // Adds the three flags. BORROWS this, which must outlive the parse.
  void add_to(CLI::App& command, bool config_required = true);
  // What to load; the environment is this process's, installed files lie beside the program.
  config::LoadRequest request() const;
  config::ResolvedConfig load() const;  // throws config::ConfigError
};

// config::load_config; the section storage.s3 holds for the paths s3://... of this process from
// then on.
config::ResolvedConfig load_for_process(const config::LoadRequest& request);

}  // namespace wmtp::cli
