#include "wmtp/cli/init/offers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>

#include "wmtp/core/error.h"
#include "wmtp/core/suggest.h"
#include "wmtp/model/presets.h"

namespace wmtp::cli {
namespace {

namespace fs = std::filesystem;

std::string_view text_of(config::Stage stage) {
  switch (stage) {
    case config::Stage::baseline:
      return "all tokens alike: rows, text or tokens";
    case config::Stage::critic:
      return "the value of every prefix: rows with is_correct, pairs where task_id makes them";
    case config::Stage::verifiable:
      return "tokens weighted by what the value gains: rows with is_correct; --critic, or jointly";
    case config::Stage::rho1:
      return "tokens selected against a model: rows, text or tokens, and --reference";
  }
  return "";
}

std::string first_comment(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line.starts_with("# ") ? line.substr(2) : "";
}

}  // namespace

config::Stage parse_stage(const std::string& name) {
  std::vector<std::string> names;
  for (const std::string_view one : config::EnumNames<config::Stage>::names) {
    if (name == one) return static_cast<config::Stage>(names.size());
    names.emplace_back(one);
  }
  const auto guess = nearest(name, names);
  throw Error(ErrorKind::config, "init", fmt::format("there is no stage \"{}\"", name),
              guess ? fmt::format("did you mean {}?", *guess)
                    : fmt::format("known are {}", fmt::join(names, ", ")));
}

std::vector<Offer> stage_offers() {
  std::vector<Offer> offers;
  for (const std::string_view name : config::EnumNames<config::Stage>::names)
    offers.push_back({std::string(name), std::string(text_of(parse_stage(std::string(name))))});
  return offers;
}

std::vector<Offer> preset_offers() {
  std::vector<Offer> offers;
  for (const std::string& name : model::preset_names()) {
    const model::ModelConfig config = model::preset(name);
    const auto parameters = static_cast<double>(config.total_parameters());
    const bool billions = parameters >= 1e9;
    offers.push_back({name, fmt::format("{:.4g} {} parameters, {} positions, {} prediction head{}",
                                        parameters / (billions ? 1e9 : 1e6),
                                        billions ? "billion" : "million", config.max_positions,
                                        config.n_future, config.n_future == 1 ? "" : "s")});
  }
  return offers;
}

std::vector<Offer> shipped_offers(const fs::path& folder) {
  std::vector<Offer> offers;
  std::error_code ignored;
  for (fs::recursive_directory_iterator at(folder, ignored), end; at != end; at.increment(ignored))
    if (at->path().extension() == ".yaml")
      offers.push_back({at->path().lexically_relative(folder).string(), first_comment(at->path())});
  std::ranges::sort(offers, {}, &Offer::name);
  return offers;
}

fs::path shipped_folder(const fs::path& installed_defaults) {
  std::error_code ignored;
  const bool installed = fs::exists(installed_defaults, ignored);
  return installed ? installed_defaults.parent_path() : fs::path("configs");
}

}  // namespace wmtp::cli
