#include "wmtp/model/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <numbers>

#include "wmtp/core/error.h"
#include "wmtp/model/json_fields.h"

namespace wmtp::model {
namespace {

class Problems {
 public:
  // The upper limits keep every product of sizes far below 2^63.
  void range(std::string_view what, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high)
      list_.push_back(fmt::format("{} is {}, must be {}..{}", what, value, low, high));
  }
  void require(bool holds, std::string fact) {
    if (!holds) list_.push_back(std::move(fact));
  }
  const std::vector<std::string>& list() const { return list_; }

 private:
  std::vector<std::string> list_;
};

void check_rope(const RopeConfig& rope, const FieldNames& names, Problems& problems) {
  problems.require(std::isfinite(rope.theta) && rope.theta > 1,
                   fmt::format("{} is {}, must be above 1", names.rope_theta, rope.theta));
  if (!rope.scaling) return;
  const Llama3Scaling& s = *rope.scaling;
  problems.require(s.factor >= 1 && std::isfinite(s.factor),
                   fmt::format("rope factor is {}, must be at least 1", s.factor));
  problems.require(s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor &&
                       std::isfinite(s.high_freq_factor),
                   fmt::format("rope low_freq_factor {} and high_freq_factor {} must be positive "
                               "and rising",
                               s.low_freq_factor, s.high_freq_factor));
  problems.range("rope original_max_position_embeddings", s.original_positions, 1,
                 std::int64_t{1} << 32);
}

// Division, comparison and blending in fp32, as the tensors of transformers do.
float stretched(float frequency, const Llama3Scaling& scaling) {
  const auto original = static_cast<float>(scaling.original_positions);
  const auto low = static_cast<float>(scaling.low_freq_factor);
  const auto high = static_cast<float>(scaling.high_freq_factor);
  const auto factor = static_cast<float>(scaling.factor);
  const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
  if (wavelength < original / high) return frequency;
  const float divided = frequency / factor;
  if (wavelength > original / low) return divided;
  const float blend = (original / wavelength - low) / (high - low);
  return (1 - blend) * divided + blend * frequency;
}

}  // namespace

std::string_view name_of(Architecture architecture) {
  switch (architecture) {
    case Architecture::llama:
      return "llama";
    case Architecture::qwen3:
      return "qwen3";
    case Architecture::llama_mtp:
      return "llama_mtp";
  }
  WMTP_CHECK(false, "unknown architecture");
}

std::int64_t ModelConfig::block_parameters() const {
  const std::int64_t attention = 2 * dim * head_dim * (num_heads + num_kv_heads);
  const std::int64_t norms = 2 * dim + (qk_norm ? 2 * head_dim : 0);
  return attention + 3 * dim * ffn_dim + norms;
}

std::int64_t ModelConfig::total_parameters() const {
  return num_blocks * block_parameters() + (tied ? 1 : 2) * vocab_size * dim + dim;
}

void validate(const ModelConfig& config, std::string_view origin, const FieldNames& names) {
  Problems problems;
  problems.range(names.dim, config.dim, 1, 1 << 20);
  problems.range(names.num_blocks, config.num_blocks, 1, 4096);
  // As many as the grid of a GPU's attention holds.
  problems.range(names.num_heads, config.num_heads, 1, (1 << 16) - 1);
  problems.range(names.num_kv_heads, config.num_kv_heads, 1, (1 << 16) - 1);
  problems.range("head_dim", config.head_dim, 2, 1 << 12);
  problems.range(names.ffn_dim, config.ffn_dim, 1, 1 << 22);
  problems.range("vocab_size", config.vocab_size, 1, 1 << 24);
  problems.range("n_future_tokens", config.n_future, 1, 16);
  problems.range(names.max_positions, config.max_positions, 1, kNoLimit);
  problems.require(config.head_dim % 2 == 0,
                   fmt::format("head_dim is {}, must be even for RoPE", config.head_dim));
  problems.require(config.num_kv_heads < 1 || config.num_heads % config.num_kv_heads == 0,
                   fmt::format("{} heads are no multiple of {} key/value heads", config.num_heads,
                               config.num_kv_heads));
  problems.require(config.num_blocks >= config.n_future,
                   fmt::format("{} blocks are fewer than {} prediction heads", config.num_blocks,
                               config.n_future));
  problems.require(config.norm_eps > 0 && config.norm_eps < 1,
                   fmt::format("{} is {}, must be in (0, 1)", names.norm_eps, config.norm_eps));
  problems.require(config.initializer_range >= 0 && config.initializer_range <= 1,
                   fmt::format("initializer_range is {}, must be 0..1", config.initializer_range));
  problems.require(config.architecture != Architecture::llama_mtp || config.n_future > 1,
                   "a llama_mtp model needs at least 2 prediction heads");
  check_rope(config.rope, names, problems);
  if (!problems.list().empty())
    throw Error(ErrorKind::config, "model",
                fmt::format("{}: {}", origin, fmt::join(problems.list(), "; ")));
}

std::vector<float> inv_freq(const ModelConfig& config) {
  const std::int64_t half = config.head_dim / 2;
  std::vector<float> frequencies(static_cast<std::size_t>(half));
  for (std::int64_t j = 0; j < half; ++j) {
    const float exponent = static_cast<float>(2 * j) / static_cast<float>(config.head_dim);
    const auto power = static_cast<float>(
        std::pow(static_cast<double>(static_cast<float>(config.rope.theta)), double{exponent}));
    const float frequency = 1.0f / power;
    frequencies[static_cast<std::size_t>(j)] =
        config.rope.scaling ? stretched(frequency, *config.rope.scaling) : frequency;
  }
  return frequencies;
}

ModelConfig with_added_heads(ModelConfig config, std::int64_t n_future) {
  WMTP_CHECK(config.n_future == 1 && n_future >= 1, "heads can be added to a plain model only");
  config.num_blocks += n_future - 1;
  config.n_future = n_future;
  if (config.architecture == Architecture::llama && n_future > 1)
    config.architecture = Architecture::llama_mtp;
  return config;
}

namespace {

ModelConfig as_plain(ModelConfig config) {
  config.n_future = 1;
  if (config.architecture == Architecture::llama_mtp) config.architecture = Architecture::llama;
  return config;
}

}  // namespace

ModelConfig next_token_model(ModelConfig config) {
  config.num_blocks = config.num_layers();
  return as_plain(std::move(config));
}

ModelConfig backbone(ModelConfig config) {
  config.num_blocks = config.num_trunk_blocks();
  config.tied = true;  // units without lm_head
  return as_plain(std::move(config));
}

}  // namespace wmtp::model
