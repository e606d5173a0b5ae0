#include "wmtp/weights/peft_config.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "wmtp/core/error.h"
#include "wmtp/core/foreign_json.h"

namespace wmtp::weights {
namespace {

// The release whose files these are; readers only show it.
constexpr std::string_view kPeftVersion = "0.21.2";

// Keys that change what is computed. Null, false and empty count as not set.
constexpr std::array<std::string_view, 20> kRefused{"use_dora",
                                                    "fan_in_fan_out",
                                                    "rank_pattern",
                                                    "alpha_pattern",
                                                    "modules_to_save",
                                                    "lora_bias",
                                                    "use_qalora",
                                                    "layer_replication",
                                                    "target_parameters",
                                                    "trainable_token_indices",
                                                    "alora_invocation_tokens",
                                                    "alora_invocation_string",
                                                    "megatron_config",
                                                    "velora_config",
                                                    "monteclora_config",
                                                    "use_bdlora",
                                                    "arrow_config",
                                                    "kasa_config",
                                                    "ensure_weight_tying",
                                                    "layers_to_transform"};
// These replace the base's weights before training; the folder's base is then not the base.
constexpr std::array<std::string_view, 6> kChangesBase{"pissa", "corda", "olora",
                                                       "OLoRA", "loftq", "lora_ga"};

class PeftFields {
 public:
  PeftFields(const Json& json, std::string_view origin) : json_(json), origin_(origin) {
    if (!json.is_object())
      throw Error(ErrorKind::data, "peft", fmt::format("{}: not a JSON object", origin_));
  }

  const Json* find(std::string_view key) const {  // nullptr: absent or null
    const auto entry = json_.find(key);
    return entry == json_.end() || entry->is_null() ? nullptr : &*entry;
  }

  [[noreturn]] void refuse(std::string_view key, std::string_view why,
                           std::string_view hint = {}) const {
    const Json* value = find(key);
    throw Error(ErrorKind::config, "peft",
                fmt::format("{}: {} {} {}", origin_, key,
                            value ? value->dump(-1, ' ', false, Json::error_handler_t::replace)
                                  : "is missing;",
                            why),
                hint);
  }

  double number(std::string_view key, double otherwise) const {
    const Json* value = find(key);
    if (!value) return otherwise;
    if (!value->is_number() || !std::isfinite(value->get<double>())) refuse(key, "is no number");
    return value->get<double>();
  }

  bool flag(std::string_view key) const {
    const Json* value = find(key);
    if (value && !value->is_boolean()) refuse(key, "is neither true nor false");
    return value && value->get<bool>();
  }

  std::string text(std::string_view key) const {
    const Json* value = find(key);
    if (value && !value->is_string()) refuse(key, "is no text");
    return value ? value->get<std::string>() : "";
  }

  bool is_set(std::string_view key) const {
    const Json* value = find(key);
    return value && *value != Json(false) && !(value->is_structured() && value->empty());
  }

 private:
  const Json& json_;
  std::string origin_;
};

void refuse_other_methods(const PeftFields& fields) {
  if (fields.text("peft_type") != "LORA") fields.refuse("peft_type", "is not LORA");
  if (const std::string bias = fields.text("bias"); !bias.empty() && bias != "none")
    fields.refuse("bias", "is not \"none\"", "wmtp's projections have no bias");
  for (std::string_view key : kRefused)
    if (fields.is_set(key)) fields.refuse(key, "is not supported");
  const Json* init = fields.find("init_lora_weights");
  if (!init || !init->is_string()) return;
  for (std::string_view method : kChangesBase)
    if (init->get_ref<const std::string&>().starts_with(method))
      fields.refuse("init_lora_weights", "changes the base's weights",
                    "convert the adapter with PEFT (path_initial_model_for_weight_conversion)");
}

std::vector<std::string> targets_of(const PeftFields& fields) {
  const Json* value = fields.find("target_modules");
  std::vector<std::string> targets;
  if (!value || value->is_string()) return targets;
  if (!value->is_array()) fields.refuse("target_modules", "is neither a list nor a text");
  for (const Json& target : *value) {
    if (!target.is_string()) fields.refuse("target_modules", "holds something other than names");
    targets.push_back(target.get<std::string>());
  }
  return targets;
}

}  // namespace

PeftConfig parse_peft_config(const Json& json, std::string_view origin) {
  const PeftFields fields(json, origin);
  refuse_other_methods(fields);
  PeftConfig config;
  config.base_model = fields.text("base_model_name_or_path");
  if (const Json* rank = fields.find("r")) {
    if (!rank->is_number_integer() || *rank < 1 || *rank > 65536)
      fields.refuse("r", "is not a rank between 1 and 65536");
    config.rank = rank->get<std::int64_t>();
  }
  config.alpha = fields.number("lora_alpha", 8);
  if (config.alpha <= 0) fields.refuse("lora_alpha", "is not positive");
  config.dropout = fields.number("lora_dropout", 0);
  if (config.dropout < 0 || config.dropout >= 1)
    fields.refuse("lora_dropout", "is not within [0, 1)");
  config.rslora = fields.flag("use_rslora");
  config.targets = targets_of(fields);
  return config;
}

PeftConfig read_peft_config(const std::filesystem::path& path) {
  return parse_peft_config(read_foreign_json(path), path.string());
}

std::string peft_config_text(const PeftConfig& config) {
  const bool whole = config.alpha == std::floor(config.alpha) && config.alpha < 1e15;
  const Json json{
      {"alpha_pattern", Json::object()},
      {"base_model_name_or_path", config.base_model},
      {"bias", "none"},
      {"fan_in_fan_out", false},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"layers_pattern", nullptr},
      {"layers_to_transform", nullptr},
      {"lora_alpha", whole ? Json(static_cast<std::int64_t>(config.alpha)) : Json(config.alpha)},
      {"lora_dropout", config.dropout},
      {"modules_to_save", nullptr},
      {"peft_type", "LORA"},
      {"peft_version", kPeftVersion},
      {"r", config.rank},
      {"rank_pattern", Json::object()},
      {"revision", nullptr},
      {"target_modules", config.targets},
      {"task_type", "CAUSAL_LM"},
      {"use_dora", false},
      {"use_rslora", config.rslora}};
  return json.dump(2) + "\n";
}

}  // namespace wmtp::weights
