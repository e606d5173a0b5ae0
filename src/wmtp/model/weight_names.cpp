#include "wmtp/model/weight_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "wmtp/core/error.h"
#include "wmtp/kernels/nf4.h"

namespace wmtp::model {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;  // Meta's, wmtp's

constexpr std::array<NamePair, 3> kRootNames{{
    {"tok_embeddings", "model.embed_tokens"},
    {"output", "lm_head"},
    {"norm", "model.norm"},
}};
constexpr std::array<NamePair, 9> kBlockNames{{
    {"attention.wq", "self_attn.q_proj"},
    {"attention.wk", "self_attn.k_proj"},
    {"attention.wv", "self_attn.v_proj"},
    {"attention.wo", "self_attn.o_proj"},
    {"feed_forward.w1", "mlp.gate_proj"},
    {"feed_forward.w3", "mlp.up_proj"},
    {"feed_forward.w2", "mlp.down_proj"},
    {"attention_norm", "input_layernorm"},
    {"ffn_norm", "post_attention_layernorm"},
}};
constexpr std::string_view kSuffixes[] = {".weight", ".lora_A.weight", ".lora_B.weight"};
constexpr std::string_view kPeftPrefix = "base_model.model.";

layout::UnitSpec block_unit(const ModelConfig& config, std::string name) {
  const std::int64_t d = config.dim, f = config.ffn_dim, e = config.head_dim;
  const std::int64_t q_rows = config.num_heads * e, kv_rows = config.num_kv_heads * e;
  layout::UnitSpec unit{std::move(name), {}};
  auto add = [&](std::string_view part, std::vector<std::int64_t> shape) {
    unit.params.push_back({fmt::format("{}.{}.weight", unit.name, part), std::move(shape)});
  };
  add("self_attn.q_proj", {q_rows, d});
  add("self_attn.k_proj", {kv_rows, d});
  add("self_attn.v_proj", {kv_rows, d});
  add("self_attn.o_proj", {d, q_rows});
  add("mlp.gate_proj", {f, d});
  add("mlp.up_proj", {f, d});
  add("mlp.down_proj", {d, f});
  add("input_layernorm", {d});
  add("post_attention_layernorm", {d});
  if (config.qk_norm) {
    add("self_attn.q_norm", {e});
    add("self_attn.k_norm", {e});
  }
  return unit;
}

// Cuts one of the three endings off; what is left names a module.
std::optional<NamePair> split_suffix(std::string_view name) {
  std::optional<NamePair> best;
  for (const std::string_view suffix : kSuffixes)
    if (name.ends_with(suffix) && (!best || suffix.size() > best->second.size()))
      best = NamePair{name.substr(0, name.size() - suffix.size()), suffix};
  return best;
}

// Splits "layers.12.rest" after `prefix` into "12" and "rest".
std::optional<NamePair> split_index(std::string_view module, std::string_view prefix) {
  if (!module.starts_with(prefix)) return std::nullopt;
  module.remove_prefix(prefix.size());
  const auto dot = module.find('.');
  const std::string_view digits = module.substr(0, dot);
  const bool plain =
      !digits.empty() && digits.size() <= 6 &&
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (dot == module.npos || !plain) return std::nullopt;
  return NamePair{digits, module.substr(dot + 1)};
}

template <class Table>
std::optional<std::string_view> find_in(const Table& table, std::string_view meta_name) {
  for (const auto& [meta, ours] : table)
    if (meta == meta_name) return ours;
  return std::nullopt;
}

}  // namespace

std::vector<layout::UnitSpec> model_units(const ModelConfig& config) {
  std::vector<layout::UnitSpec> units;
  layout::UnitSpec root{"root", {{"model.embed_tokens.weight", {config.vocab_size, config.dim}}}};
  if (!config.tied) root.params.push_back({"lm_head.weight", {config.vocab_size, config.dim}});
  root.params.push_back({"model.norm.weight", {config.dim}});
  root.kept = true;
  units.push_back(std::move(root));
  for (std::int64_t i = 0; i < config.num_layers(); ++i)
    units.push_back(block_unit(config, fmt::format("model.layers.{}", i)));
  for (std::int64_t i = 0; i < config.num_extra_heads(); ++i)
    units.push_back(block_unit(config, fmt::format("model.extra_heads.{}", i)));
  return units;
}

std::vector<std::string> quantize_projections(std::vector<layout::UnitSpec>& units) {
  std::vector<std::string> left;
  for (layout::UnitSpec& unit : units) {
    std::int64_t place = 0;
    for (layout::ParamSpec& param : unit.params) {
      if (param.trained) continue;
      const bool whole_blocks =
          place % kernels::kNf4Block == 0 && param.numel() % kernels::kNf4Block == 0;
      place += param.numel();
      if (!param.name.ends_with("_proj.weight")) continue;
      param.quantized = whole_blocks;
      if (!whole_blocks) left.push_back(param.name);
    }
  }
  return left;
}

void mark_float8_matrices(std::vector<layout::UnitSpec>& units) {
  const auto matrix_of = [](const layout::ParamSpec& param) {
    constexpr std::string_view kParts[][3] = {{"q_proj.weight", "k_proj.weight", "v_proj.weight"},
                                              {"o_proj.weight"},
                                              {"gate_proj.weight", "up_proj.weight"},
                                              {"down_proj.weight"}};
    for (int m = 0; m < 4; ++m)
      for (const std::string_view part : kParts[m])
        if (!part.empty() && param.name.ends_with(part)) return m + 1;
    return 0;
  };
  for (layout::UnitSpec& unit : units) {
    const bool learns = std::ranges::all_of(unit.params, [&](const layout::ParamSpec& param) {
      return param.trained || matrix_of(param) == 0;
    });
    for (layout::ParamSpec& param : unit.params)
      if (learns) param.float8_matrix = matrix_of(param);
  }
}

std::string_view name_of(ValueHeadType type) {
  switch (type) {
    case ValueHeadType::mlp:
      return "mlp";
    case ValueHeadType::linear:
      return "linear";
    case ValueHeadType::sigmoid:
      return "sigmoid";
  }
  WMTP_CHECK(false, "unknown value head type");
}

ValueHeadType value_head_type(std::string_view name) {
  for (const auto type : {ValueHeadType::mlp, ValueHeadType::linear, ValueHeadType::sigmoid})
    if (name_of(type) == name) return type;
  throw Error(ErrorKind::config, "model", fmt::format("unknown value head type \"{}\"", name),
              "known are mlp, linear, sigmoid");
}

layout::UnitSpec value_head_unit(ValueHeadType type, std::int64_t dim) {
  layout::UnitSpec unit{"value_head", {}, /*kept=*/true, /*full_precision=*/true};
  auto add_layer = [&](std::string_view module, std::int64_t out, std::int64_t in) {
    unit.params.push_back({fmt::format("value_head.{}.weight", module), {out, in}});
    unit.params.push_back({fmt::format("value_head.{}.bias", module), {out}});
  };
  if (type != ValueHeadType::mlp) {
    add_layer("linear", 1, dim);
    return unit;
  }
  const std::int64_t wide = std::max<std::int64_t>(dim / 4, 1),
                     narrow = std::max<std::int64_t>(dim / 8, 1);
  add_layer("mlp.0", wide, dim);
  add_layer("mlp.3", narrow, wide);
  add_layer("mlp.6", 1, narrow);
  return unit;
}

layout::NameMap meta_name_map(const ModelConfig& config) {
  return
      [head_dim = config.head_dim](std::string_view stored) -> std::optional<layout::MappedName> {
        auto name = from_meta_name(stored);
        if (!name) return std::nullopt;
        const bool rotary = name->find("self_attn.q_proj.") != name->npos ||
                            name->find("self_attn.k_proj.") != name->npos;
        const bool permuted = rotary && !name->ends_with(".lora_A.weight");
        return layout::MappedName{std::move(*name), permuted ? head_dim : 0};
      };
}

std::optional<std::string> from_meta_name(std::string_view meta_name) {
  const auto parts = split_suffix(meta_name);
  if (!parts) return std::nullopt;
  const auto [module, suffix] = *parts;
  if (const auto root = find_in(kRootNames, module)) return fmt::format("{}{}", *root, suffix);
  for (const std::string_view group : {"layers.", "extra_heads."}) {
    const auto index = split_index(module, group);
    if (!index) continue;
    const auto part = find_in(kBlockNames, index->second);
    if (!part) return std::nullopt;
    return fmt::format("model.{}{}.{}{}", group, index->first, *part, suffix);
  }
  return std::nullopt;
}

std::optional<std::string_view> projection_name(std::string_view short_name) {
  for (const auto& [meta, ours] : kBlockNames) {
    const std::string_view theirs = meta.substr(meta.find('.') + 1);
    const std::string_view mine = ours.substr(ours.find('.') + 1);
    if (mine.ends_with("_proj") && (short_name == theirs || short_name == mine)) return mine;
  }
  return std::nullopt;
}

std::string to_peft_name(std::string_view name) {
  return fmt::format("{}{}", kPeftPrefix, name);
}

std::optional<std::string> from_peft_name(std::string_view peft_name) {
  if (!peft_name.starts_with(kPeftPrefix)) return std::nullopt;
  return std::string(peft_name.substr(kPeftPrefix.size()));
}

}  // namespace wmtp::model
