#include "wmtp/models/base_fingerprint.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "wmtp/core/checksum.h"
#include "wmtp/models/sampling/weight_samples.h"

namespace wmtp::models {
namespace {

constexpr std::size_t kDigits = 64;

// Own words, not an exported file's: those may change between versions.
std::string text_of(const model::ModelConfig& config) {
  std::string text = fmt::format(
      "wmtp base 1\n{} {} {} {} {} {} {} {} {}\ntheta {} eps {} tied {} qk_norm {}\n",
      model::name_of(config.architecture), config.dim, config.num_blocks, config.num_heads,
      config.num_kv_heads, config.head_dim, config.ffn_dim, config.vocab_size, config.n_future,
      config.rope.theta, config.norm_eps, config.tied, config.qk_norm);
  if (const auto& scaling = config.rope.scaling)
    text += fmt::format("scaling {} {} {} {}\n", scaling->factor, scaling->low_freq_factor,
                        scaling->high_freq_factor, scaling->original_positions);
  return text;
}

void add_elements(Sha256& digest, const parallel::ReadParam& fill, const layout::ParamSpec& param,
                  std::int64_t begin, std::int64_t count) {
  const Tensor piece = at::empty({count}, at::kFloat);
  fill(param, begin, piece);
  digest.update({static_cast<const std::byte*>(piece.const_data_ptr()), piece.nbytes()});
}

void add_param(Sha256& digest, const parallel::ReadParam& fill, const layout::ParamSpec& param) {
  digest.update(fmt::format("{} {}\n", param.name, fmt::join(param.shape, " ")));
  for_each_sample(param.numel(), [&](std::int64_t begin, std::int64_t count) {
    add_elements(digest, fill, param, begin, count);
  });
}

}  // namespace

std::string sampled_fingerprint(const ModelSource& source) {
  Sha256 digest;
  digest.update(text_of(source.config));
  if (source.lora) digest.update(fmt::format("adapters scaled by {}\n", source.lora->scale()));
  if (source.lora)
    for (const auto& [name, module] : source.lora->modules)
      digest.update(fmt::format("{} scaled by {}\n", name, source.lora->scale(module)));
  for (const layout::UnitSpec& unit : source.units())
    for (const layout::ParamSpec& param : unit.params) add_param(digest, source.fill, param);
  return to_hex(digest.finish());
}

std::string random_fingerprint(const model::ModelConfig& config, std::string_view how) {
  return sha256_hex(fmt::format("{}{} std {}\n", text_of(config), how, config.initializer_range));
}

bool is_fingerprint(std::string_view text) {
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace wmtp::models
