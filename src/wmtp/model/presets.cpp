#include "wmtp/model/presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "wmtp/core/error.h"
#include "wmtp/core/suggest.h"

namespace wmtp::model {
namespace {

constexpr Llama3Scaling kLlama31{8, 1, 4, 8192};
constexpr Llama3Scaling kLlama32{32, 1, 4, 8192};
constexpr Llama3Scaling kMicroScaling{8, 1, 4, 128};

struct Preset {
  std::string_view name;
  Architecture architecture;
  std::int64_t dim, num_blocks, num_heads, num_kv_heads, head_dim, ffn_dim, vocab_size;
  double theta, norm_eps;
  std::int64_t max_positions;
  bool tied;
  std::int64_t n_future, bos_id, eos_id;
  std::optional<Llama3Scaling> scaling = {};
};

constexpr auto kMtp = Architecture::llama_mtp;
constexpr auto kLlama = Architecture::llama;
constexpr auto kQwen3 = Architecture::qwen3;

// clang-format off
constexpr Preset kPresets[] = {
  // name                 arch      d   L   h   g   e      f       V  theta   eps  positions  tied  n    bos     eos
  {"micro",              kMtp,    128,  6,  4,  2,  32,   352,    512, 1e4, 1e-5,   1024, false, 4,      1,      2},
  {"micro-llama",        kLlama,  128,  4,  4,  2,  32,   352,    512, 5e5, 1e-5,   1024, false, 1,      1,      2, kMicroScaling},
  {"micro-qwen3",        kQwen3,  128,  4,  4,  2,  64,   384,    512, 1e6, 1e-6,   1024, true,  1,      1,      2},
  {"small",              kMtp,    512,  8,  8,  8,  64,  1536,  32000, 1e4, 1e-5,   2048, false, 4,      1,      2},
  {"qwen3-0.6b",         kQwen3, 1024, 28, 16,  8, 128,  3072, 151936, 1e6, 1e-6,  40960, true,  1, 151643, 151645},
  {"qwen3-1.7b",         kQwen3, 2048, 28, 16,  8, 128,  6144, 151936, 1e6, 1e-6,  40960, true,  1, 151643, 151645},
  {"qwen3-4b",           kQwen3, 2560, 36, 32,  8, 128,  9728, 151936, 1e6, 1e-6,  40960, true,  1, 151643, 151645},
  {"qwen3-8b",           kQwen3, 4096, 36, 32,  8, 128, 12288, 151936, 1e6, 1e-6,  40960, false, 1, 151643, 151645},
  {"qwen3-14b",          kQwen3, 5120, 40, 40,  8, 128, 17408, 151936, 1e6, 1e-6,  40960, false, 1, 151643, 151645},
  {"qwen3-32b",          kQwen3, 5120, 64, 64,  8, 128, 25600, 151936, 1e6, 1e-6,  40960, false, 1, 151643, 151645},
  {"llama-2-7b",         kLlama, 4096, 32, 32, 32, 128, 11008,  32000, 1e4, 1e-5,   4096, false, 1,      1,      2},
  {"llama-2-13b",        kLlama, 5120, 40, 40, 40, 128, 13824,  32000, 1e4, 1e-5,   4096, false, 1,      1,      2},
  {"llama-2-70b",        kLlama, 8192, 80, 64,  8, 128, 28672,  32000, 1e4, 1e-5,   4096, false, 1,      1,      2},
  {"llama-mtp-7b",       kMtp,   4096, 32, 32, 32, 128, 11008,  32000, 1e4, 1e-5,   2048, false, 4,      1,      2},
  {"llama-3.1-8b",       kLlama, 4096, 32, 32,  8, 128, 14336, 128256, 5e5, 1e-5, 131072, false, 1, 128000, 128001, kLlama31},
  {"llama-3.1-70b",      kLlama, 8192, 80, 64,  8, 128, 28672, 128256, 5e5, 1e-5, 131072, false, 1, 128000, 128001, kLlama31},
  {"llama-3.2-1b",       kLlama, 2048, 16, 32,  8,  64,  8192, 128256, 5e5, 1e-5, 131072, true,  1, 128000, 128001, kLlama32},
  {"llama-3.2-3b",       kLlama, 3072, 28, 24,  8, 128,  8192, 128256, 5e5, 1e-5, 131072, true,  1, 128000, 128001, kLlama32},
  {"sheared-llama-2.7b", kLlama, 2560, 32, 20, 20, 128,  6912,  32000, 1e4, 1e-5,   4096, false, 1,      1,      2},
};
// clang-format on

ModelConfig config_of(const Preset& preset) {
  ModelConfig config;
  config.architecture = preset.architecture;
  config.dim = preset.dim;
  config.num_blocks = preset.num_blocks;
  config.num_heads = preset.num_heads;
  config.num_kv_heads = preset.num_kv_heads;
  config.head_dim = preset.head_dim;
  config.ffn_dim = preset.ffn_dim;
  config.vocab_size = preset.vocab_size;
  config.n_future = preset.n_future;
  config.rope = {preset.theta, preset.scaling};
  config.norm_eps = preset.norm_eps;
  config.max_positions = preset.max_positions;
  config.tied = preset.tied;
  config.qk_norm = preset.architecture == Architecture::qwen3;
  config.bos_id = preset.bos_id;
  config.eos_ids = {preset.eos_id};
  return config;
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

std::optional<ModelConfig> find_preset(std::string_view name) {
  for (const Preset& preset : kPresets)
    if (preset.name == name) return config_of(preset);
  return std::nullopt;
}

ModelConfig preset(std::string_view name) {
  if (auto config = find_preset(name)) return *config;
  const auto names = preset_names();
  const auto guess = nearest(name, names);
  throw Error(ErrorKind::config, "model", fmt::format("there is no preset \"{}\"", name),
              guess ? fmt::format("did you mean {}?", *guess)
                    : fmt::format("known are {}", fmt::join(names, ", ")));
}

}  // namespace wmtp::model
