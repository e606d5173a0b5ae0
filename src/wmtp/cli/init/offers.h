// What there is to begin from: stages, presets, shipped configurations.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "wmtp/config/experiment.h"

namespace wmtp::cli {

// Error config with the nearest name where there is no such stage.
config::Stage parse_stage(const std::string& name);

struct Offer {
  std::string name, text;
};
std::vector<Offer> stage_offers();
std::vector<Offer> preset_offers();

// The shipped files, by their path in `folder`, each with its first comment; none where it is not
// there.
std::vector<Offer> shipped_offers(const std::filesystem::path& folder);
// Those beside the program, else configs/ of the working folder.
std::filesystem::path shipped_folder(const std::filesystem::path& installed_defaults);

}  // namespace wmtp::cli
