#include "wmtp/cli/init/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "wmtp/cli/init/offers.h"
#include "wmtp/comm/launch/launch_env.h"
#include "wmtp/core/error.h"
#include "wmtp/core/suggest.h"
#include "wmtp/data/file_format.h"
#include "wmtp/data/index/source_file.h"
#include "wmtp/model/presets.h"
#include "wmtp/models/open_model.h"

namespace wmtp::cli {
namespace {

namespace fs = std::filesystem;
using config::Stage;

struct SeenModel {
  InitModel model;
  fs::path tokenizer_folder;  // empty: it has none
};

// One word that nothing in this folder is called.
[[noreturn]] void refuse_name(const std::string& name) {
  const auto guess = nearest(name, model::preset_names());
  throw Error(ErrorKind::config, "init",
              fmt::format("{} is neither a folder or file here nor a preset", name),
              guess ? fmt::format("did you mean the preset {}?", *guess)
                    : "`wmtp init --list` shows the presets; " + missing_path_hint(name));
}

SeenModel see_model(const std::string& name) {
  SeenModel seen;
  seen.model.path = name;
  if (const auto preset = model::find_preset(name)) {
    seen.model.positions = preset->max_positions;
    seen.model.drawn = true;
    seen.model.init_fact = "a preset has a shape and no weights.";
    return seen;
  }
  std::error_code ignored;
  if (name.find('/') == name.npos && !fs::exists(name, ignored)) refuse_name(name);
  const models::OpenedModel opened = models::open_model(name, comm::process_environment());
  seen.model.positions = opened.config.max_positions;
  seen.model.drawn = !opened.has_weights();
  seen.model.init_fact =
      seen.model.drawn ? "the model has a configuration and no weights." : "the model has weights.";
  seen.tokenizer_folder = opened.folder.tokenizer_folder;
  return seen;
}

std::vector<std::string> file_names(const std::vector<std::string>& patterns) {
  std::vector<std::string> names;
  for (const fs::path& file : data::expand_files(patterns)) names.push_back(file.string());
  return names;
}

// train.jsonl has validation.jsonl or valid.jsonl beside it; empty: neither.
std::string validation_beside(const std::string& train) {
  const fs::path path(train);
  const std::string name = path.filename().string();
  if (!name.starts_with("train.")) return "";
  for (const std::string_view other : {"validation", "valid"}) {
    const fs::path file = path.parent_path() / (std::string(other) + name.substr(5));
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored)) return file.string();
  }
  return "";
}

void refuse_idle_flag(const InitFlags& flags, const std::string& value, std::string_view flag,
                      Stage its_stage) {
  if (value.empty() || parse_stage(flags.stage) == its_stage) return;
  throw Error(
      ErrorKind::config, "init",
      fmt::format("{} is for stage {}, this is {}", flag, config::name_of(its_stage), flags.stage),
      fmt::format("leave {} out", flag));
}

bool has_tokenizer(const fs::path& folder) {
  std::error_code ignored;
  return !folder.empty() && (fs::exists(folder / "tokenizer.json", ignored) ||
                             fs::exists(folder / "tokenizer.model", ignored) ||
                             fs::exists(folder / "vocab.json", ignored));
}

std::shared_ptr<const tokenizer::Tokenizer> find_tokenizer(const InitFlags& flags, SeenModel& seen,
                                                           const OpenTokenizer& open) {
  InitModel& model = seen.model;
  model.tokenizer_path = flags.tokenizer;
  if (model.tokenizer_path.empty() && !has_tokenizer(seen.tokenizer_folder)) {
    model.tokenizer_path = tokenizer_beside(flags.data);
    model.tokenizer_fact = "it lies beside the data, and the model has none.";
    if (model.tokenizer_path.empty())
      throw Error(ErrorKind::config, "init",
                  fmt::format("missing: --tokenizer; {} has none, and none lies beside {}",
                              model.path, flags.data.front()),
                  "name a folder with tokenizer.json or tokenizer.model");
  }
  return model.tokenizer_path.empty() ? tokenizer::load_tokenizer(seen.tokenizer_folder)
                                      : open(model.tokenizer_path);
}

}  // namespace

void require_model(const std::string& name) {
  see_model(name);
}

void require_data(const std::string& pattern) {
  for (const fs::path& file : data::expand_files({pattern}))
    if (file.extension() != ".wtok" && !data::is_text_file(file)) {
      // Which column of JSON Lines is the text is found later: any object is a row so far.
      if (data::first_keys(file, {}).empty()) data::detect_format(file, {});
    }
}

std::string tokenizer_beside(const std::vector<std::string>& data) {
  if (data.empty()) return "";
  const fs::path parent = fs::path(data.front()).parent_path();
  const fs::path folder = parent.empty() ? fs::path("./") : parent;
  return has_tokenizer(folder) ? folder.string() : "";
}

std::string usual_name(const std::string& stage, const std::vector<std::string>& data) {
  const fs::path file = data.empty() ? fs::path() : fs::path(data.front());
  std::string stem = data::stem_of(file);
  const std::string folder = file.parent_path().filename().string();
  const bool says_nothing = stem == "train" || stem == "text" || stem == "data" || stem == "rows";
  if (says_nothing && !folder.empty() && folder != "." && folder != "..") stem = folder;
  std::string name = stage + "-" + stem;
  std::ranges::replace_if(
      name, [](unsigned char c) { return c >= 0x80 || !(std::isalnum(c) || c == '.' || c == '-'); },
      '_');
  return name.substr(0, 100);
}

InitInputs gather_inputs(const InitFlags& flags, const OpenTokenizer& open) {
  InitInputs inputs;
  inputs.stage = parse_stage(flags.stage);
  refuse_idle_flag(flags, flags.critic, "--critic", Stage::verifiable);
  refuse_idle_flag(flags, flags.reference, "--reference", Stage::rho1);
  inputs.critic = flags.critic;
  inputs.reference = flags.reference;
  inputs.train = file_names(flags.data);
  inputs.validation = flags.validation;
  if (inputs.validation.empty() && inputs.train.size() == 1) {
    const std::string found = validation_beside(inputs.train.front());
    if (!found.empty()) inputs.validation = {found};
    inputs.validation_fact = "it lies beside the training file.";
  }
  if (!inputs.validation.empty()) inputs.validation = file_names(inputs.validation);
  if (!flags.preset.empty()) model::preset(flags.preset);  // and no folder
  SeenModel seen = see_model(flags.model_name());
  const auto tokenizer = find_tokenizer(flags, seen, open);
  inputs.model = seen.model;
  inputs.model.has_chat_tokens =
      tokenizer->id_of("<|im_start|>").has_value() && tokenizer->id_of("<|im_end|>").has_value();
  data::DatasetOptions options;
  options.files = inputs.train;
  options.encode.prompt_template = static_cast<data::PromptTemplate>(
      proposed_template(data::Format::instruct, inputs.model.has_chat_tokens));
  inputs.survey = data::survey_files(options, *tokenizer);
  inputs.name = flags.name.empty() ? usual_name(flags.stage, inputs.train) : flags.name;
  require_suitable_data(inputs);
  return inputs;
}

}  // namespace wmtp::cli
