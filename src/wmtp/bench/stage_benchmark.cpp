#include "wmtp/bench/stage_benchmark.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/core/rng.h"
#include "wmtp/model/value_head.h"
#include "wmtp/run/plan/flops.h"
#include "wmtp/training/objectives/critic.h"
#include "wmtp/training/objectives/rho1.h"
#include "wmtp/training/objectives/verifiable.h"

namespace wmtp::bench {
namespace {

// Whitened advantages, the dearest of the weightings.
training::VerifiableOptions verifiable_options() {
  training::VerifiableOptions options;
  options.td.mode = weighting::TdMode::gae;
  options.weights = {1, 0.1, 3};
  options.whiten = training::Whiten::ema;
  return options;
}

std::vector<float> drawn(std::size_t count, float scale, std::uint64_t index) {
  RngStream rng(7, "bench/signals/" + std::to_string(index));
  std::vector<float> values(count);
  for (float& value : values)
    value = scale * static_cast<float>(rng.below(1 << 20)) / static_cast<float>(1 << 20);
  return values;
}

// The value head's weights beside those of the model.
parallel::ReadParam with_value_head(parallel::ReadParam weights, model::ValueHeadType type,
                                    std::int64_t dim) {
  const auto head = std::make_shared<model::ValueHead>(type, dim);
  return [weights = std::move(weights), head](const layout::ParamSpec& param, std::int64_t begin,
                                              const Tensor& out) {
    if (param.name.starts_with("value_head.")) return head->draw(param, 0, 0.5, begin, out);
    weights(param, begin, out);
  };
}

}  // namespace

BenchStage::BenchStage(StageFlags flags) : flags_(std::move(flags)) {
  const bool is_verifiable = name() == "verifiable";
  if (flags_.signals != "given" && !is_verifiable && !(name() == "rho1" && reads_model()))
    throw Error(ErrorKind::config, "bench",
                fmt::format("--signals {}: the stage {} has none", flags_.signals, name()),
                "rho1 and verifiable take model, verifiable takes joint");
  if (flags_.train_backbone && predicts())
    throw Error(ErrorKind::config, "bench",
                fmt::format("--train-backbone: the stage {} always trains it", name()));
}

model::ModelConfig BenchStage::model(const model::ModelConfig& config) const {
  return predicts() ? config : model::backbone(config);
}

void BenchStage::set_up(training::AssembleOptions& options) {
  if (!predicts()) options.frozen = !options.transformer.lora && !flags_.train_backbone;
  if (!predicts() || flags_.signals == "joint") options.value_head = training::ValuePathOptions{};
  if (name() == "verifiable")
    ema_ = std::make_unique<weighting::EmaTracker>(weighting::EmaState{}, options.parallel.device);
  if (reads_model())
    load_frozen_ = [source = frozen_source(options),
                    wanted = frozen_options(options)](const parallel::Groups& groups) {
      return std::make_unique<training::FrozenModel>(source, wanted, groups);
    };
  options.objective = [this](const training::ModelParts& parts) { return make(parts); };
}

models::ModelSource BenchStage::frozen_source(const training::AssembleOptions& options) const {
  models::ModelSource source;
  source.config = options.model;
  source.fill = models::random_weights(options.model, 1);
  if (name() == "verifiable") {
    source.value_head = model::ValueHeadType::mlp;
    source.fill = with_value_head(source.fill, *source.value_head, options.model.dim);
  }
  return source;
}

training::FrozenModelOptions BenchStage::frozen_options(
    const training::AssembleOptions& options) const {
  training::FrozenModelOptions wanted;
  wanted.use = name() == "verifiable" ? training::FrozenModelOptions::Use::values
                                      : training::FrozenModelOptions::Use::next_token_nll;
  wanted.dtype = options.parallel.param_dtype;
  wanted.quantize = options.quantize;
  wanted.device = options.parallel.device;
  return wanted;
}

std::optional<run::FrozenRequest> BenchStage::frozen_request(
    const training::AssembleOptions& options) const {
  if (!reads_model()) return std::nullopt;
  const models::ModelSource source = frozen_source(options);
  const training::FrozenModelOptions wanted = frozen_options(options);
  return run::FrozenRequest{.model = training::frozen_config(source, wanted.use),
                            .units = training::frozen_units(source, wanted.use, wanted.quantize),
                            .dtype = wanted.dtype,
                            .logits = name() == "rho1"};
}

std::unique_ptr<training::Objective> BenchStage::make(const training::ModelParts& parts) {
  if (load_frozen_) frozen_ = load_frozen_(parts.groups);
  if (name() == "critic") {
    training::CriticOptions options;
    options.backbone_learns = flags_.train_backbone;
    return std::make_unique<training::Critic>(parts.policy, *parts.value, *parts.read_value,
                                              options);
  }
  if (name() == "verifiable")
    return std::make_unique<training::Verifiable>(
        parts.policy, training::ValueSources{parts.value, parts.read_value, frozen_.get()},
        verifiable_options(), *ema_, *parts.groups.reduce);
  if (name() == "rho1")
    return std::make_unique<training::Rho1>(parts.policy, frozen_.get(), training::Rho1Options{},
                                            *parts.groups.reduce);
  return std::make_unique<training::Baseline>(parts.policy);
}

parallel::ReadParam BenchStage::fill(const training::AssembleOptions& options) const {
  const parallel::ReadParam weights = models::random_weights(options.model, 0);
  if (!options.value_head) return weights;
  return with_value_head(weights, options.value_head->type, options.model.dim);
}

training::DeviceBatch BenchStage::upload(const models::SyntheticBatch& batch,
                                         const training::UploadOptions& options) const {
  const Tensor& inv_freq_F = options.inv_freq_F;
  if (name() == "baseline")
    return models::upload_tokens(batch.view(), options.num_heads, inv_freq_F, {}, options.shape);
  std::vector<float> rewards;
  for (std::size_t d = 0; d < batch.sample_ids.size(); ++d)
    rewards.push_back(static_cast<float>(d % 2));
  training::DeviceBatch uploaded = training::upload_batch(batch.view(), rewards, options);
  if (flags_.signals != "given") return uploaded;
  const std::uint64_t index = batch.sample_ids.front();
  if (name() == "verifiable")
    uploaded.value_N =
        training::upload_values(drawn(batch.tokens.size(), 1, index), inv_freq_F.device());
  if (name() == "rho1")
    uploaded.ref_nll_N =
        training::upload_values(drawn(batch.tokens.size(), 10, index), inv_freq_F.device());
  return uploaded;
}

double BenchStage::flops_per_token(const training::AssembleOptions& options, double span) const {
  const auto& lora = options.transformer.lora;
  if (options.frozen) return run::forward_flops_per_token(options.model, span, predicts());
  if (!lora) return 3 * run::forward_flops_per_token(options.model, span, predicts());
  return run::lora_flops_per_token(
      options.model, span, static_cast<double>(model::lora_parameters(options.model, *lora)),
      predicts());
}

}  // namespace wmtp::bench
