#include "wmtp/model/meta_params.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "wmtp/core/foreign_json.h"
#include "wmtp/core/log.h"
#include "wmtp/model/json_fields.h"

namespace wmtp::model {
namespace {

constexpr std::array<std::string_view, 16> kKnownKeys{"dim",
                                                      "n_layers",
                                                      "n_heads",
                                                      "n_kv_heads",
                                                      "vocab_size",
                                                      "multiple_of",
                                                      "ffn_dim_multiplier",
                                                      "norm_eps",
                                                      "rope_theta",
                                                      "n_future_tokens",
                                                      "use_scaled_rope",
                                                      "max_seq_len",
                                                      "max_batch_size",
                                                      "intermediate_size",
                                                      "model",
                                                      "model_type"};

void warn_of_unknown_keys(const JsonFields& fields) {
  for (const auto& [key, value] : fields.json().items())
    if (std::find(kKnownKeys.begin(), kKnownKeys.end(), key) == kKnownKeys.end())
      log::warn("model", "{}: unknown key {} is ignored", fields.origin(), key);
}

std::int64_t read_ffn_dim(const JsonFields& fields, std::int64_t dim) {
  const std::int64_t multiple_of = fields.integer("multiple_of").value_or(256);
  if (multiple_of < 1 || multiple_of > (1 << 20))
    fields.refuse("multiple_of", fmt::format("is {}, must be 1..1048576", multiple_of));
  const auto multiplier = fields.number("ffn_dim_multiplier");
  if (multiplier && !(*multiplier > 0 && *multiplier <= 1000))
    fields.refuse("ffn_dim_multiplier", fmt::format("is {}, must be in (0, 1000]", *multiplier));
  if (dim < 1 || dim > (1 << 20))
    fields.refuse("dim", fmt::format("is {}, must be 1..1048576", dim));
  return meta_ffn_dim(dim, multiple_of, multiplier);
}

std::int64_t read_vocab_size(const JsonFields& fields, std::optional<std::int64_t> embedding_rows) {
  const std::int64_t stated = fields.integer("vocab_size").value_or(-1);
  if (stated > 0) return stated;
  if (!embedding_rows)
    fields.refuse("vocab_size",
                  fmt::format("is {}; it must be given where no weights are", stated));
  return *embedding_rows;
}

ModelConfig read_fields(const JsonFields& fields, std::optional<std::int64_t> embedding_rows) {
  warn_of_unknown_keys(fields);
  ModelConfig config;
  config.dim = fields.required_integer("dim");
  config.num_blocks = fields.required_integer("n_layers");
  config.num_heads = fields.required_integer("n_heads");
  config.num_kv_heads = fields.integer("n_kv_heads").value_or(config.num_heads);
  config.head_dim = config.num_heads > 0 ? config.dim / config.num_heads : 0;
  config.ffn_dim = read_ffn_dim(fields, config.dim);
  config.vocab_size = read_vocab_size(fields, embedding_rows);
  config.norm_eps = fields.number("norm_eps").value_or(1e-5);
  config.rope.theta = fields.number("rope_theta").value_or(10000);
  const bool scaled = fields.boolean("use_scaled_rope").value_or(false);
  if (scaled) config.rope.scaling = Llama3Scaling{};
  config.n_future = fields.integer("n_future_tokens").value_or(1);
  if (config.n_future > 1) config.architecture = Architecture::llama_mtp;
  config.max_positions = fields.limit("max_seq_len").value_or(scaled ? 131072 : 2048);
  const bool llama3_vocabulary = config.vocab_size == 128256;
  config.bos_id = llama3_vocabulary ? 128000 : 1;
  config.eos_ids = {llama3_vocabulary ? 128001 : 2};
  return config;
}

}  // namespace

std::int64_t meta_ffn_dim(std::int64_t dim, std::int64_t multiple_of,
                          std::optional<double> multiplier) {
  auto width = static_cast<std::int64_t>(static_cast<double>(8 * dim) / 3.0);
  if (multiplier) width = static_cast<std::int64_t>(*multiplier * static_cast<double>(width));
  return (width + multiple_of - 1) / multiple_of * multiple_of;
}

ModelConfig parse_meta_params(const Json& json, std::string_view origin,
                              std::optional<std::int64_t> embedding_rows) {
  const JsonFields top(json, std::string(origin));
  const auto inner = top.object("model");
  const ModelConfig config = read_fields(inner ? *inner : top, embedding_rows);
  validate(config, origin,
           {.dim = "dim",
            .num_blocks = "n_layers",
            .num_heads = "n_heads",
            .num_kv_heads = "n_kv_heads",
            .ffn_dim = "the FFN width (multiple_of, ffn_dim_multiplier)",
            .max_positions = "max_seq_len",
            .norm_eps = "norm_eps"});
  return config;
}

ModelConfig read_meta_params(const std::filesystem::path& path,
                             std::optional<std::int64_t> embedding_rows) {
  return parse_meta_params(read_foreign_json(path), path.string(), embedding_rows);
}

}  // namespace wmtp::model
