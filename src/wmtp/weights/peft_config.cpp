#include "wmtp/weights/peft_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "wmtp/core/error.h"
#include "wmtp/core/file.h"
#include "wmtp/core/foreign_json.h"

namespace wmtp::weights {
namespace {

// The release whose files these are; readers only show it.
constexpr std::string_view kPeftVersion = "0.21.2";
constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20;

// Keys that change what is computed. Null, false and empty count as not set.
constexpr std::array<std::string_view, 17> kRefused{"use_dora",
                                                    "fan_in_fan_out",
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
                                                    "ensure_weight_tying"};
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

// A list of names, or one text, which goes to `pattern`.
std::vector<std::string> names_of(const PeftFields& fields, std::string_view key,
                                  std::string* pattern) {
  const Json* value = fields.find(key);
  std::vector<std::string> names;
  if (!value) return names;
  if (value->is_string()) {
    *pattern = value->get<std::string>();
    return names;
  }
  if (!value->is_array()) fields.refuse(key, "is neither a list nor a text");
  for (const Json& name : *value) {
    if (!name.is_string()) fields.refuse(key, "holds something other than names");
    names.push_back(name.get<std::string>());
  }
  return names;
}

void read_targets(const PeftFields& fields, PeftConfig& config) {
  config.targets = names_of(fields, "target_modules", &config.target_pattern);
  // Where the file names none, PEFT has these for every model that wmtp knows.
  if (!fields.find("target_modules")) config.targets = {"q_proj", "v_proj"};
  std::string lower = config.target_pattern;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower == "all-linear") config.target_pattern = lower;
  if (config.targets.empty() && config.target_pattern.empty())
    fields.refuse("target_modules", "names no modules");
  config.excluded = names_of(fields, "exclude_modules", &config.exclude_pattern);
}

// PEFT takes neither key beside a pattern, nor the second one alone.
void read_layers(const PeftFields& fields, PeftConfig& config) {
  std::string one;
  config.layers_pattern = names_of(fields, "layers_pattern", &one);
  if (!one.empty()) config.layers_pattern = {one};
  const Json* layers = fields.find("layers_to_transform");
  const Json list = !layers ? Json::array() : layers->is_array() ? *layers : Json::array({*layers});
  for (const Json& layer : list) {
    if (!layer.is_number_integer())
      fields.refuse("layers_to_transform", "is neither an integer nor a list of integers");
    config.layers.push_back(layer.get<std::int64_t>());
  }
  if (!config.target_pattern.empty())
    for (const std::string_view key : {"layers_to_transform", "layers_pattern"})
      if (fields.find(key)) fields.refuse(key, "does not go with a target_modules that is a text");
  if (!config.layers_pattern.empty() && !layers)
    fields.refuse("layers_pattern", "needs layers_to_transform");
}

void read_patterns(const PeftFields& fields, PeftConfig& config) {
  for (const std::string_view key : {"rank_pattern", "alpha_pattern"}) {
    const Json* values = fields.find(key);
    if (!values) continue;
    if (!values->is_object()) fields.refuse(key, "is no object");
    for (const auto& [name, value] : values->items()) {
      if (key == "alpha_pattern") {
        if (!value.is_number() || !(value.get<double>() > 0) || !std::isfinite(value.get<double>()))
          fields.refuse(key, "holds something other than positive numbers");
        config.alpha_pattern.emplace_back(name, value.get<double>());
      } else {
        if (!value.is_number_integer() || value < 1 || value > 65536)
          fields.refuse(key, "holds something other than ranks between 1 and 65536");
        config.rank_pattern.emplace_back(name, value.get<std::int64_t>());
      }
    }
  }
}

// Where several keys fit a module the first one counts, so their order matters.
template <class Value>
void order_as_written(const OrderedJson& file, const char* key,
                      std::vector<std::pair<std::string, Value>>& patterns) {
  if (patterns.size() < 2) return;
  std::vector<std::string> order;
  for (const auto& entry : file.at(key).items()) order.push_back(entry.key());
  std::ranges::sort(patterns, {}, [&](const auto& entry) {
    return std::ranges::find(order, entry.first) - order.begin();
  });
}

// Whole numbers without a point, as PEFT writes them.
Json shortest(double alpha) {
  const bool whole = alpha == std::floor(alpha) && alpha < 1e15;
  return whole ? Json(static_cast<std::int64_t>(alpha)) : Json(alpha);
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
  read_targets(fields, config);
  read_layers(fields, config);
  read_patterns(fields, config);
  return config;
}

PeftConfig read_peft_config(const std::filesystem::path& path) {
  const std::string text = read_file(path, kMaxConfigBytes, ErrorKind::data);
  PeftConfig config = parse_peft_config(parse_foreign_json(text, path.string()), path.string());
  const OrderedJson as_written = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  order_as_written(as_written, "rank_pattern", config.rank_pattern);
  order_as_written(as_written, "alpha_pattern", config.alpha_pattern);
  return config;
}

std::string peft_config_text(const PeftConfig& config) {
  Json rank_pattern = Json::object(), alpha_pattern = Json::object();
  for (const auto& [name, rank] : config.rank_pattern) rank_pattern[name] = rank;
  for (const auto& [name, alpha] : config.alpha_pattern) alpha_pattern[name] = shortest(alpha);
  const Json json{{"alpha_pattern", alpha_pattern},
                  {"base_model_name_or_path", config.base_model},
                  {"bias", "none"},
                  {"fan_in_fan_out", false},
                  {"inference_mode", true},
                  {"init_lora_weights", true},
                  {"layers_pattern", nullptr},
                  {"layers_to_transform", nullptr},
                  {"lora_alpha", shortest(config.alpha)},
                  {"lora_dropout", config.dropout},
                  {"modules_to_save", nullptr},
                  {"peft_type", "LORA"},
                  {"peft_version", kPeftVersion},
                  {"r", config.rank},
                  {"rank_pattern", rank_pattern},
                  {"revision", nullptr},
                  {"target_modules", config.targets},
                  {"task_type", "CAUSAL_LM"},
                  {"use_dora", false},
                  {"use_rslora", config.rslora}};
  return json.dump(2) + "\n";
}

}  // namespace wmtp::weights
