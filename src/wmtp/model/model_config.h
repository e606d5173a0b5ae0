// What a model is: the sizes and constants that define its computation and its parameters.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp::model {

enum class Architecture { llama, qwen3, llama_mtp };
std::string_view name_of(Architecture architecture);

// Frequencies stretched for long contexts as Llama 3.1 does.
struct Llama3Scaling {
  double factor = 8, low_freq_factor = 1, high_freq_factor = 4;
  std::int64_t original_positions = 8192;
  bool operator==(const Llama3Scaling&) const = default;
};

struct RopeConfig {
  double theta = 10000;
  std::optional<Llama3Scaling> scaling;
  bool operator==(const RopeConfig&) const = default;
};

struct ModelConfig {
  Architecture architecture = Architecture::llama;
  std::int64_t dim = 0;           // d
  std::int64_t num_blocks = 0;    // L: every block, those of the prediction heads included
  std::int64_t num_heads = 0;     // h
  std::int64_t num_kv_heads = 0;  // g
  std::int64_t head_dim = 0;      // e; h * e need not equal d
  std::int64_t ffn_dim = 0;       // f
  std::int64_t vocab_size = 0;    // V
  std::int64_t n_future = 1;      // n: prediction heads
  RopeConfig rope;
  double norm_eps = 1e-5;
  std::int64_t max_positions = 2048;
  bool tied = false;  // the unembedding is the embedding
  bool qk_norm = false;
  double initializer_range = 0.02;
  std::optional<std::int64_t> bos_id, pad_id;
  std::vector<std::int64_t> eos_ids;
  std::string dtype;  // the config's own word, "" = none: only the default of exports

  bool operator==(const ModelConfig&) const = default;

  // Blocks called model.layers.*; the rest are model.extra_heads.*.
  std::int64_t num_layers() const { return num_blocks - n_future + 1; }
  std::int64_t num_extra_heads() const { return n_future - 1; }
  // Blocks before the heads. A plain model (n = 1) has no head block.
  std::int64_t num_trunk_blocks() const {
    return n_future == 1 ? num_blocks : num_blocks - n_future;
  }

  // Exact counts; tied weights count once.
  std::int64_t block_parameters() const;
  std::int64_t total_parameters() const;
};

// What a file calls the fields of a model; these are config.json's names.
struct FieldNames {
  std::string_view dim = "hidden_size", num_blocks = "num_hidden_layers",
                   num_heads = "num_attention_heads", num_kv_heads = "num_key_value_heads",
                   ffn_dim = "intermediate_size", max_positions = "max_position_embeddings",
                   norm_eps = "rms_norm_eps", rope_theta = "rope_theta";
};

// Error config that lists everything that cannot be, naming `origin`; otherwise nothing.
void validate(const ModelConfig& config, std::string_view origin, const FieldNames& names = {});

// fp32 values [e / 2], computed as transformers computes them: power, reciprocal and scaling each
// rounded to fp32.
std::vector<float> inv_freq(const ModelConfig& config);

// A plain model given prediction heads: its last block becomes head 1, n - 1 blocks are added.
// REQUIRES n_future == 1 in `config` and n >= 1.
ModelConfig with_added_heads(ModelConfig config, std::int64_t n_future);
// The model without its extra heads: trunk and head 1, a plain next-token model.
ModelConfig next_token_model(ModelConfig config);
// Trunk and final norm alone, as values are computed from: no head block, no unembedding of its
// own.
ModelConfig backbone(ModelConfig config);

}  // namespace wmtp::model
