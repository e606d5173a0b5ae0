#include "wmtp/model/hf_config.h"

namespace wmtp::model {
namespace {

Json scaling_keys(const Llama3Scaling& scaling) {
  return {{"rope_type", "llama3"},
          {"factor", scaling.factor},
          {"low_freq_factor", scaling.low_freq_factor},
          {"high_freq_factor", scaling.high_freq_factor},
          {"original_max_position_embeddings", scaling.original_positions}};
}

// Version 4 reads rope_theta and rope_scaling, version 5 rope_scaling before rope_parameters: where
// both stand they say the same.
void add_rope(Json& json, const RopeConfig& rope) {
  Json parameters = rope.scaling ? scaling_keys(*rope.scaling) : Json{{"rope_type", "default"}};
  if (rope.scaling) json["rope_scaling"] = parameters;
  parameters["rope_theta"] = rope.theta;
  json["rope_parameters"] = std::move(parameters);
  json["rope_theta"] = rope.theta;
}

void add_ids(Json& json, const ModelConfig& config) {
  if (config.bos_id) json["bos_token_id"] = *config.bos_id;
  if (config.pad_id) json["pad_token_id"] = *config.pad_id;
  if (config.eos_ids.size() == 1)
    json["eos_token_id"] = config.eos_ids[0];
  else if (!config.eos_ids.empty())
    json["eos_token_id"] = config.eos_ids;
}

void add_extras(Json& json, const ModelConfig& config, const ExportExtras& extras) {
  Json block = Json::object();
  if (!extras.mtp_file.empty() || (extras.heads_inside && config.n_future > 1))
    block["n_future_tokens"] = config.n_future;
  if (!extras.mtp_file.empty()) block["mtp_file"] = extras.mtp_file;
  if (extras.value_head) block["value_head"] = name_of(*extras.value_head);
  if (!block.empty()) json["wmtp"] = std::move(block);
}

}  // namespace

std::string hf_config_text(const ModelConfig& config, std::string_view dtype,
                           const ExportExtras& extras) {
  const bool qwen3 = config.architecture == Architecture::qwen3;
  Json json{{"architectures", {qwen3 ? "Qwen3ForCausalLM" : "LlamaForCausalLM"}},
            {"model_type", qwen3 ? "qwen3" : "llama"},
            {"vocab_size", config.vocab_size},
            {"hidden_size", config.dim},
            {"intermediate_size", config.ffn_dim},
            {"num_hidden_layers", config.num_layers()},
            {"num_attention_heads", config.num_heads},
            {"num_key_value_heads", config.num_kv_heads},
            {"head_dim", config.head_dim},
            {"hidden_act", "silu"},
            {"max_position_embeddings", config.max_positions},
            {"rms_norm_eps", config.norm_eps},
            {"initializer_range", config.initializer_range},
            {"tie_word_embeddings", config.tied},
            {"attention_bias", false},
            {"attention_dropout", 0.0},
            {"use_cache", true},
            {"dtype", dtype},
            {"torch_dtype", dtype}};
  if (qwen3)
    json["use_sliding_window"] = false;
  else
    json["mlp_bias"] = false;
  // Absent ids would come back as transformers' defaults, so they are written as null.
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) json[key] = nullptr;
  add_rope(json, config.rope);
  add_ids(json, config);
  add_extras(json, config, extras);
  return json.dump(2) + "\n";
}

std::string generation_config_text(const ModelConfig& config, std::string_view base) {
  const Json before =
      base.empty() ? Json::object() : parse_json(base, "the base's generation_config.json");
  Json json = before;
  add_ids(json, config);
  // A list of one says the same as the number.
  const auto eos = before.find("eos_token_id");
  if (eos != before.end() && eos->is_array() && *eos == Json(config.eos_ids))
    json["eos_token_id"] = *eos;
  return json == before && !base.empty() ? std::string(base) : json.dump(2) + "\n";
}

}  // namespace wmtp::model
