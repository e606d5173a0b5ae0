#include "wmtp/run/plan/frozen_plan.h"

#include <fmt/format.h>

#include "wmtp/core/error.h"
#include "wmtp/models/merged_source.h"
#include "wmtp/run/plan/from_config.h"
#include "wmtp/run/plan/kernels/attention_choice.h"
#include "wmtp/tokenizer/tokenizer.h"

namespace wmtp::run {
namespace {

using config::Stage;

// The frozen model of the stage by the key that names it.
struct FrozenModelRef {
  std::string key, path, base_model;
  std::optional<config::DType> dtype;
  config::Quantize quantize = config::Quantize::none;
  config::Placement placement = config::Placement::automatic;
  training::FrozenModelOptions::Use use = training::FrozenModelOptions::Use::next_token_nll;
};

std::string text_of(const std::optional<config::ModelLocation>& location) {
  return location ? location->text : "";
}

std::optional<FrozenModelRef> frozen_model_ref(const config::Config& config) {
  const config::Training& training = config.training;
  if (config.experiment.stage == Stage::rho1) {
    const config::ReferenceModel& reference = config.models.reference;
    const bool is_path = reference.path.has_value();
    const auto& location = is_path ? reference.path : reference.checkpoint_path;
    if (!location)
      throw Error(ErrorKind::config, "train", "rho1 needs a reference model",
                  "set models.reference.path");
    return FrozenModelRef{is_path ? "models.reference.path" : "models.reference.checkpoint_path",
                          location->text,
                          text_of(reference.base_model_path),
                          reference.dtype,
                          reference.quantize,
                          reference.placement,
                          training::FrozenModelOptions::Use::next_token_nll};
  }
  if (config.experiment.stage == Stage::verifiable &&
      training.value.source == config::ValueSource::model &&
      training.td.control != config::TdControl::random) {
    const config::ValueModel& value = config.models.value_model;
    if (!value.checkpoint_path)
      throw Error(ErrorKind::config, "train", "value.source model needs a value model",
                  "set models.value_model.checkpoint_path to a critic run");
    return FrozenModelRef{"models.value_model.checkpoint_path",
                          value.checkpoint_path->text,
                          text_of(value.base_model_path),
                          value.dtype,
                          value.quantize,
                          value.placement,
                          training::FrozenModelOptions::Use::values};
  }
  return std::nullopt;
}

void require_same_tokens(const FrozenModelRef& wish, const models::ModelSource& source,
                         std::int64_t vocab_size, const std::filesystem::path& tokenizer_folder) {
  if (source.config.vocab_size != vocab_size)
    throw Error(ErrorKind::config, "train",
                fmt::format("{}: the model has {} tokens, the policy {}", wish.key,
                            source.config.vocab_size, vocab_size),
                "both must use the same tokenizer: positions must mean the same tokens");
  if (source.tokenizer_folder.empty() || tokenizer_folder.empty()) return;
  const auto theirs = tokenizer::load_tokenizer(source.tokenizer_folder);
  const auto ours = tokenizer::load_tokenizer(tokenizer_folder);
  if (theirs->fingerprint() != ours->fingerprint())
    throw Error(ErrorKind::config, "train",
                fmt::format("{}: its tokenizer differs from the policy's ({} against {})", wish.key,
                            theirs->fingerprint().substr(0, 12), ours->fingerprint().substr(0, 12)),
                "positions must mean the same tokens in both models");
}

}  // namespace

FrozenRequest FrozenPlan::memory_request() const {
  FrozenRequest request;
  request.model = training::frozen_config(source, options.use);
  request.units = training::frozen_units(source, options.use, options.quantize);
  request.dtype = options.dtype;
  request.stored_dtype = options.stored_dtype;
  request.shard = options.shard;
  request.shard_group_size = options.shard_group_size;
  request.logits = options.use == training::FrozenModelOptions::Use::next_token_nll;
  return request;
}

std::optional<FrozenPlan> plan_frozen(const config::Config& config, const RunContext& context,
                                      std::int64_t vocab_size,
                                      const std::filesystem::path& tokenizer_folder) {
  const auto wish = frozen_model_ref(config);
  if (!wish) return std::nullopt;
  FrozenPlan plan;
  plan.path = wish->path;
  plan.source = models::merged_source(
      models::open_model_source(wish->path, context.environment, 0, wish->base_model));
  require_same_tokens(*wish, plan.source, vocab_size, tokenizer_folder);
  plan.placement = wish->placement;
  plan.options.use = wish->use;
  plan.options.dtype = compute_dtype(wish->dtype.value_or(config::DType::bf16), context.device);
  if (wish->dtype) plan.options.stored_dtype = tensor_dtype(*wish->dtype);
  plan.options.quantize = wish->quantize == config::Quantize::nf4;
  plan.options.device = context.device;
  plan.options.loss_chunk_rows = config.runtime.loss_chunk_rows;
  plan.options.attention =
      attention_options(config.runtime, {"frozen model", plan.source.config, plan.options.dtype},
                        context.device, context.named_gpu);
  plan.options.shard = wish->placement == config::Placement::shard;
  return plan;
}

}  // namespace wmtp::run
