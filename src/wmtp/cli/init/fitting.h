// The configuration that `wmtp init` writes, checked as `wmtp validate` does before anybody sees
// it.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "wmtp/cli/init/proposal.h"

namespace wmtp::cli {

struct Configuration {
  std::vector<config::CommentedKey> keys;
  std::string yaml;
};

// The largest proposed batch that fits into the memory of this machine, where it has a device to
// judge by. `file`: where it will stand, for the layers below it. A run that fits with no batch is
// a warning: another machine may have it. Error with what `wmtp validate` would say first. BLOCKS.
Configuration fitting_configuration(const InitInputs& inputs, const std::filesystem::path& file);

}  // namespace wmtp::cli
