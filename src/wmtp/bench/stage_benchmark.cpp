#include "wmtp/bench/stage_benchmark.h"

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

}  // namespace

model::ModelConfig BenchStage::model(const model::ModelConfig& config) const {
  return predicts() ? config : model::backbone(config);
}

void BenchStage::set_up(training::AssembleOptions& options) {
  if (!predicts()) {
    options.frozen = !options.transformer.lora;
    options.value_head = training::ValuePathOptions{};
  }
  if (name_ == "verifiable")
    ema_ = std::make_unique<weighting::EmaTracker>(weighting::EmaState{}, options.parallel.device);
  options.objective = [this](const training::ModelParts& parts) { return make(parts); };
}

std::unique_ptr<training::Objective> BenchStage::make(const training::ModelParts& parts) {
  if (name_ == "critic") {
    training::CriticOptions options;
    options.backbone_learns = false;
    return std::make_unique<training::Critic>(parts.policy, *parts.value, *parts.read_value,
                                              options);
  }
  if (name_ == "verifiable")
    return std::make_unique<training::Verifiable>(
        parts.policy, training::ValueSources{}, verifiable_options(), *ema_, *parts.groups.reduce);
  if (name_ == "rho1")
    return std::make_unique<training::Rho1>(parts.policy, nullptr, training::Rho1Options{},
                                            *parts.groups.reduce);
  return std::make_unique<training::Baseline>(parts.policy);
}

parallel::ReadParam BenchStage::fill(const training::AssembleOptions& options) const {
  const parallel::ReadParam weights = models::random_weights(options.model, 0);
  if (!options.value_head) return weights;
  const auto head = std::make_shared<model::ValueHead>(options.value_head->type, options.model.dim);
  return [weights, head](const layout::ParamSpec& param, std::int64_t begin, const Tensor& out) {
    if (param.name.starts_with("value_head.")) return head->draw(param, 0, 0.5, begin, out);
    weights(param, begin, out);
  };
}

training::DeviceBatch BenchStage::upload(const models::SyntheticBatch& batch, int num_heads,
                                         const Tensor& inv_freq_F) const {
  if (name_ == "baseline") return models::upload_tokens(batch.view(), num_heads, inv_freq_F);
  std::vector<float> rewards;
  for (std::size_t d = 0; d < batch.sample_ids.size(); ++d)
    rewards.push_back(static_cast<float>(d % 2));
  training::DeviceBatch uploaded = training::upload_batch(
      batch.view(), rewards, {.num_heads = num_heads, .inv_freq_F = inv_freq_F});
  const std::uint64_t index = batch.sample_ids.front();
  if (name_ == "verifiable")
    uploaded.value_N =
        training::upload_values(drawn(batch.tokens.size(), 1, index), inv_freq_F.device());
  if (name_ == "rho1")
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
