#include "wmtp/model/hf_config.h"

#include <fmt/format.h>

#include "wmtp/core/foreign_json.h"
#include "wmtp/core/log.h"
#include "wmtp/model/json_fields.h"

namespace wmtp::model {
namespace {

void refuse_if_true(const JsonFields& fields, std::string_view key) {
  if (fields.boolean(key).value_or(false))
    fields.refuse(key, "is true; wmtp does not support that");
}

void refuse_other_computations(const JsonFields& fields) {
  for (const std::string_view key : {"attention_bias", "mlp_bias", "use_sliding_window"})
    refuse_if_true(fields, key);
  if (const auto act = fields.text("hidden_act"); act && *act != "silu")
    fields.refuse("hidden_act", fmt::format("is \"{}\"; wmtp supports silu", *act));
  if (const Json* types = fields.find("layer_types")) {
    if (!types->is_array()) fields.refuse("layer_types", "must be a list");
    for (const Json& type : *types)
      if (type != "full_attention")
        fields.refuse("layer_types",
                      fmt::format("holds {}; wmtp supports full_attention", type.dump()));
  }
  if (const auto dropout = fields.number("attention_dropout"); dropout && *dropout > 0)
    log::warn("model", "{}: attention_dropout {} is ignored", fields.origin(), *dropout);
}

constexpr const char* kUnquantisedHint =
    "name the model it was made from; training quantises that itself (models.policy.quantize: nf4)";

// Whether weights are stored in 4 bits as bitsandbytes does it. Everything else that is quantised
// is refused; the tensors say the rest (weights/bitsandbytes).
bool read_quantisation(const JsonFields& fields) {
  const auto found = fields.object("quantization_config");
  if (!found) return false;
  const std::string method = found->text("quant_method").value_or("bitsandbytes");
  if (method != "bitsandbytes")
    found->refuse("quant_method",
                  fmt::format("is \"{:.40}\"; wmtp reads NF4 of bitsandbytes", method),
                  kUnquantisedHint);
  if (found->boolean("load_in_8bit").value_or(false))
    found->refuse("load_in_8bit", "is true; wmtp reads NF4 of bitsandbytes", kUnquantisedHint);
  if (!found->boolean("load_in_4bit").value_or(false))
    found->refuse("load_in_4bit", "is not true; wmtp reads NF4 of bitsandbytes", kUnquantisedHint);
  struct Demand {
    const char *key, *wanted, *otherwise;  // `otherwise`: what transformers takes without the key
  };
  for (const Demand& demand : {Demand{"bnb_4bit_quant_type", "nf4", "fp4"},
                               Demand{"bnb_4bit_quant_storage", "uint8", "uint8"}})
    if (const std::string value = found->text(demand.key).value_or(demand.otherwise);
        value != demand.wanted)
      found->refuse(demand.key, fmt::format("is \"{:.40}\"; wmtp reads {}", value, demand.wanted),
                    kUnquantisedHint);
  return true;
}

Llama3Scaling read_llama3(const JsonFields& rope, const JsonFields& top,
                          std::int64_t max_positions) {
  Llama3Scaling scaling;
  scaling.factor = rope.required_number("factor");
  scaling.low_freq_factor = rope.required_number("low_freq_factor");
  scaling.high_freq_factor = rope.required_number("high_freq_factor");
  // transformers 5 lets the top-level key overwrite the inner one when it builds the frequencies.
  constexpr std::string_view kOriginal = "original_max_position_embeddings";
  auto original = top.integer(kOriginal);
  if (!original) original = rope.integer(kOriginal);
  scaling.original_positions = original.value_or(max_positions);
  return scaling;
}

// The object that decides, as transformers 5 chooses it: a leftover rope_scaling beats
// rope_parameters.
const Json* rope_object(const JsonFields& fields, std::string& key) {
  for (const char* candidate : {"rope_scaling", "rope_parameters"}) {
    const Json* found = fields.find(candidate);
    if (!found) continue;
    key = candidate;
    if (!found->is_object()) fields.refuse(key, "must be an object");
    if (!found->empty()) return found;
  }
  return nullptr;
}

void refuse_partial_rotation(const JsonFields& fields) {
  if (const auto part = fields.number("partial_rotary_factor"); part && *part != 1.0)
    fields.refuse("partial_rotary_factor", fmt::format("is {}; wmtp supports 1", *part));
}

RopeConfig read_rope(const JsonFields& fields, std::int64_t max_positions) {
  RopeConfig rope;
  rope.theta = fields.number("rope_theta").value_or(10000);
  refuse_partial_rotation(fields);
  std::string key;
  const Json* found = rope_object(fields, key);
  if (!found) return rope;
  for (const auto& [name, value] : found->items())
    if (value.is_object())
      fields.refuse(key, fmt::format("is keyed by layer type (\"{}\"); wmtp supports one set of "
                                     "frequencies for all blocks",
                                     name));
  const JsonFields inner = *fields.object(key);
  refuse_partial_rotation(inner);
  rope.theta = inner.number("rope_theta").value_or(rope.theta);
  const char* type_key = inner.has("rope_type") ? "rope_type" : "type";
  const std::string type = inner.text(type_key).value_or("default");
  if (type == "llama3")
    rope.scaling = read_llama3(inner, fields, max_positions);
  else if (type != "default")
    inner.refuse(type_key, fmt::format("is \"{}\"; wmtp supports default and llama3", type));
  return rope;
}

Architecture read_architecture(const JsonFields& fields) {
  const auto type = fields.text("model_type");
  if (!type)
    fields.refuse("model_type", "is missing", "is this the config.json of a language model?");
  if (*type == "llama") return Architecture::llama;
  if (*type == "qwen3") return Architecture::qwen3;
  fields.refuse("model_type", fmt::format("is \"{}\"; wmtp supports llama and qwen3", *type));
}

void read_sizes(const JsonFields& fields, ModelConfig& config) {
  const bool qwen3 = config.architecture == Architecture::qwen3;
  config.vocab_size = fields.required_integer("vocab_size");
  config.dim = fields.required_integer("hidden_size");
  config.ffn_dim = fields.required_integer("intermediate_size");
  config.num_blocks = fields.required_integer("num_hidden_layers");
  config.num_heads = fields.required_integer("num_attention_heads");
  config.num_kv_heads = qwen3 ? fields.required_integer("num_key_value_heads")
                              : fields.integer("num_key_value_heads").value_or(config.num_heads);
  const std::int64_t llama_head_dim = config.num_heads > 0 ? config.dim / config.num_heads : 0;
  config.head_dim = fields.integer("head_dim").value_or(qwen3 ? 128 : llama_head_dim);
  config.max_positions = fields.limit("max_position_embeddings").value_or(qwen3 ? 32768 : 2048);
  config.norm_eps = fields.number("rms_norm_eps").value_or(1e-6);
  config.initializer_range = fields.number("initializer_range").value_or(0.02);
  config.tied = fields.boolean("tie_word_embeddings").value_or(false);
  config.qk_norm = qwen3;
}

void read_ids(const JsonFields& fields, ModelConfig& config) {
  const bool llama = config.architecture == Architecture::llama;
  const bool bos_given = fields.json().contains("bos_token_id");
  const bool eos_given = fields.json().contains("eos_token_id");
  config.bos_id = fields.integer("bos_token_id");
  config.pad_id = fields.integer("pad_token_id");
  config.eos_ids = fields.integers("eos_token_id");
  if (llama && !bos_given) config.bos_id = 1;
  if (llama && !eos_given) config.eos_ids = {2};
  // Some published files write -1 for "none".
  if (config.bos_id && *config.bos_id < 0) config.bos_id.reset();
  if (config.pad_id && *config.pad_id < 0) config.pad_id.reset();
}

// Our own block counts layers as transformers does; a top-level key (the Python project) counts
// all.
void read_heads(const JsonFields& fields, HfConfig& result) {
  ModelConfig& config = result.model;
  if (const auto own = fields.object("wmtp")) {
    config.n_future = own->integer("n_future_tokens").value_or(1);
    config.num_blocks += config.n_future - 1;
    result.extras.mtp_file = own->text("mtp_file").value_or("");
    if (const auto type = own->text("value_head"))
      result.extras.value_head = value_head_type(*type);
  } else {
    config.n_future = fields.integer("n_future_tokens").value_or(1);
  }
  if (config.architecture == Architecture::llama && config.n_future > 1)
    config.architecture = Architecture::llama_mtp;
}

}  // namespace

HfConfig parse_hf_config(const Json& json, std::string_view origin) {
  const JsonFields fields(json, std::string(origin));
  HfConfig result;
  ModelConfig& config = result.model;
  config.architecture = read_architecture(fields);
  refuse_other_computations(fields);
  result.stored_nf4 = read_quantisation(fields);
  read_sizes(fields, config);
  config.rope = read_rope(fields, config.max_positions);
  read_ids(fields, config);
  config.dtype = fields.text("dtype").value_or(fields.text("torch_dtype").value_or(""));
  read_heads(fields, result);
  validate(config, origin);
  return result;
}

GenerationIds parse_generation_ids(std::string_view text, std::string_view origin) {
  const Json json = parse_json(text, origin);
  if (!json.is_object())
    throw Error(ErrorKind::data, "model", fmt::format("{} holds no JSON object", origin));
  const JsonFields fields(json, std::string(origin));
  GenerationIds ids{fields.integer("bos_token_id"), fields.integer("pad_token_id"),
                    fields.integers("eos_token_id")};
  // Some published files write -1 for "none".
  if (ids.bos && *ids.bos < 0) ids.bos.reset();
  if (ids.pad && *ids.pad < 0) ids.pad.reset();
  std::erase_if(ids.eos, [](std::int64_t id) { return id < 0; });
  return ids;
}

HfConfig read_hf_config(const std::filesystem::path& path) {
  return parse_hf_config(read_foreign_json(path), path.string());
}

}  // namespace wmtp::model
