// The layers of a configuration, merged: what was last written for each key, before interpolation.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "wmtp/config/load.h"
#include "wmtp/config/tables/schema.h"
#include "wmtp/config/yaml/node.h"
#include "wmtp/config/yaml/problems.h"

namespace wmtp::config {

struct Layers {
  std::vector<std::optional<Node>> written;  // by row; empty = built-in default
  bool broken = false;                       // some file could not be read or parsed
  bool gae_implied = false;                  // a flat td_lambda or td_ema_* name was used
  Place stage_file;                          // for problems that stand nowhere else

  Layers() : written(schema().rows().size()) {}
};

// The layer below the stage file, as the request and the folders say; empty: there is none.
std::filesystem::path find_defaults(const LoadRequest& request);

// defaults.yaml < extends < stage file < overrides. Problems are collected, nothing is thrown for
// them.
Layers read_layers(const LoadRequest& request, Problems& problems);

// Puts a map that stands at `prefix` ("" = top) into `layers`.
void apply_map(const Node& map, const std::string& prefix, Layers& layers, Problems& problems);
// Puts one `key.path=value`, the number-th override (from 1), into `layers`.
void apply_override(const std::string& text, std::string flag, Layers& layers, Problems& problems);

}  // namespace wmtp::config
