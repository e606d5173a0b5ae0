#include "wmtp/models/base_source.h"

#include <fmt/format.h>

#include "wmtp/config/shape_fields.h"
#include "wmtp/core/error.h"
#include "wmtp/model/init_weights.h"
#include "wmtp/model/presets.h"
#include "wmtp/models/base_fingerprint.h"
#include "wmtp/models/merged_source.h"
#include "wmtp/models/open_model.h"

namespace wmtp::models {
namespace {

[[noreturn]] void refuse_base(const std::string& fact, const std::string& hint = {}) {
  throw Error(ErrorKind::config, "model", fact, hint);
}

// The shape alone, for weights from scratch: a preset or a folder's configuration.
ModelSource source_from_scratch(const config::Config& config,
                                const weights::Environment& environment) {
  const config::PolicyModel& policy = config.models.policy;
  ModelSource source;
  if (const auto preset = model::find_preset(policy.path.text)) {
    source.config = *preset;
  } else {
    const OpenedModel opened = open_model(policy.path.text, environment);
    source.config = opened.config;
    source.tokenizer_folder = opened.folder.tokenizer_folder;
    source.generation_config = opened.generation_config;
  }
  return source;
}

// Where a shape field lies; one of the two is null.
struct ShapeMember {
  std::int64_t* whole = nullptr;
  double* real = nullptr;
};

ShapeMember shape_member(std::string_view name, model::ModelConfig& shape) {
  const std::pair<std::string_view, ShapeMember> members[] = {
      {"dim", {&shape.dim}},
      {"n_layers", {&shape.num_blocks}},
      {"n_heads", {&shape.num_heads}},
      {"n_kv_heads", {&shape.num_kv_heads}},
      {"head_dim", {&shape.head_dim}},
      {"ffn_dim", {&shape.ffn_dim}},
      {"vocab_size", {&shape.vocab_size}},
      {"max_positions", {&shape.max_positions}},
      {"rope_theta", {nullptr, &shape.rope.theta}},
      {"norm_eps", {nullptr, &shape.norm_eps}}};
  for (const auto& [known, member] : members)
    if (known == name) return member;
  WMTP_CHECK(false, "a shape field without a member");
}

// models.policy.params: with weights from scratch they change the shape, otherwise they must agree.
void apply_params(const config::PolicyModel& policy, model::ModelConfig& shape) {
  const auto apply = [&policy](const std::string& key, auto& member, auto wanted) {
    if (policy.init == config::WeightInit::random)
      member = wanted;
    else if (member != wanted)
      refuse_base(fmt::format("models.policy.params.{} is {}, the model's files say {}", key,
                              wanted, member));
  };
  for (const auto& [key, value] : policy.params.items()) {
    if (const std::string fact = config::shape_field_problem(key, value); !fact.empty())
      refuse_base(fmt::format("models.policy.params.{}: {}", key, fact));
    const ShapeMember member = shape_member(config::find_shape_field(key)->name, shape);
    if (member.whole)
      apply(key, *member.whole, value.get<std::int64_t>());
    else
      apply(key, *member.real, value.get<double>());
  }
}

constexpr std::string_view kHeads = "model.extra_heads.";

// The parameter of the last layer that a head's is copied from.
layout::ParamSpec copied_param(const layout::ParamSpec& param, const std::string& last) {
  layout::ParamSpec copied = param;
  copied.name = last + param.name.substr(param.name.find('.', kHeads.size()) + 1);
  return copied;
}

std::string last_layer(const ModelSource& source) {
  return fmt::format("model.layers.{}.", source.config.num_layers() - 1);
}

// A model given more heads than its files have: where their weights come from.
parallel::ReadParam with_heads(const ModelSource& source, const model::ModelConfig& shape,
                               config::AddHeads how, std::uint64_t seed) {
  return [fill = source.fill, last = last_layer(source), how, seed, std = shape.initializer_range](
             const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
    if (!param.name.starts_with(kHeads)) return fill(param, begin, out);
    if (how == config::AddHeads::random) return model::random_init(param, seed, std, begin, out);
    fill(copied_param(param, last), begin, out);
  };
}

// The same of what is stored in 4 bits.
parallel::ReadNf4 nf4_with_heads(const ModelSource& source, config::AddHeads how) {
  if (!source.stored_nf4) return {};
  return [stored = source.stored_nf4, last = last_layer(source), how](
             const layout::ParamSpec& param, std::int64_t begin,
             std::int64_t count) -> std::optional<kernels::Nf4Weights> {
    if (!param.name.starts_with(kHeads)) return stored(param, begin, count);
    if (how == config::AddHeads::random) return std::nullopt;
    return stored(copied_param(param, last), begin, count);
  };
}

// The policy's shape and weights; the trained shape may have more heads than the files.
BaseSource policy_source(const config::Config& config, const weights::Environment& environment) {
  const config::PolicyModel& policy = config.models.policy;
  const auto seed = static_cast<std::uint64_t>(config.runtime.seed);
  const bool scratch = policy.init == config::WeightInit::random;
  if (!scratch && model::find_preset(policy.path.text))
    refuse_base(
        fmt::format("models.policy.path: {} is a preset, which has no weights", policy.path.text),
        "set models.policy.init: random, or name a model folder");
  BaseSource base;
  base.name = policy.path.text;
  base.has_random_weights = scratch;
  ModelSource& source = base.source;
  source = scratch ? source_from_scratch(config, environment)
                   : merged_source(open_model_source(policy.path.text, environment, seed));
  apply_params(policy, source.config);
  model::ModelConfig shape = source.config;
  if (const auto wanted = policy.n_future_tokens; wanted && *wanted != shape.n_future) {
    if (shape.n_future != 1)
      refuse_base(fmt::format("models.policy.n_future_tokens is {}, the model has {} heads",
                              *wanted, shape.n_future),
                  "heads can be added to plain models only");
    shape = model::with_added_heads(shape, *wanted);
    base.has_random_weights = true;
  }
  model::validate(shape, "models.policy");
  if (scratch) {
    source.fill = random_weights(shape, seed);
    source.fingerprint = [shape, seed] {
      return random_fingerprint(shape, fmt::format("drawn from {}", seed));
    };
  } else if (shape.n_future != source.config.n_future) {
    source.stored_nf4 = nf4_with_heads(source, policy.add_heads);
    source.fill = with_heads(source, shape, policy.add_heads, seed);
    source.fingerprint = [shape, seed, how = config::name_of(policy.add_heads),
                          files = source.fingerprint] {
      return random_fingerprint(shape, fmt::format("{} heads from {} on {}", how, seed, files()));
    };
  }
  source.config = shape;
  return base;
}

}  // namespace

BaseSource open_base(const config::Config& config, const weights::Environment& environment) {
  BaseSource base = policy_source(config, environment);
  if (config.experiment.stage != config::Stage::critic) return base;
  if (const auto& path = config.models.value_model.path) {
    const auto& below = config.models.value_model.base_model_path;
    base.source =
        merged_source(open_model_source(path->text, environment, 0, below ? below->text : ""));
    base.name = path->text;
    base.has_random_weights = false;
  }
  if (base.source.config.num_trunk_blocks() == 0)
    refuse_base("a critic reads the trunk, and every block of this model is a prediction head's");
  base.source.config = model::backbone(base.source.config);
  return base;
}

}  // namespace wmtp::models
