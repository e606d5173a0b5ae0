#include "wmtp/run/plan/from_config.h"

#include <fmt/format.h>

#include "wmtp/config/derived.h"
#include "wmtp/core/error.h"
#include "wmtp/core/same_name.h"

namespace wmtp::run {
namespace {

using config::Stage;

bool pairwise(const config::Config& config) {
  return config.training.value_loss.type == config::ValueLossType::pairwise_ranking;
}

enum Group : std::size_t { kPolicy, kLora, kValueHead, kFixedBias };

losses::ValueLossOptions value_loss_of(const config::ValueLoss& loss) {
  losses::ValueLossOptions options;
  options.type = same_name<losses::ValueLossType>(loss.type);
  options.loss_fn = same_name<losses::ValueLossFn>(loss.loss_fn);
  options.huber_delta = loss.huber_delta;
  options.gamma = loss.gamma;
  options.reduction = same_name<losses::ValueReduction>(loss.reduction);
  return options;
}

losses::LambdaSchedule lambda_of(const config::LambdaSchedule& schedule) {
  return {same_name<losses::LambdaScheduleType>(schedule.type),
          schedule.value,
          schedule.start,
          schedule.end,
          schedule.warmup_steps,
          schedule.decay_steps};
}

[[noreturn]] void refuse_groups(const std::string& fact, const char* hint) {
  throw Error(ErrorKind::config, "train", "distributed.fsdp.shard_group_size: " + fact, hint);
}

int shard_group_size(const config::Fsdp& fsdp, const RunContext& context) {
  const auto size = static_cast<int>(fsdp.shard_group_size.value_or(context.local_world));
  if (context.world % size != 0)
    refuse_groups(
        fmt::format("groups of {} do not divide the {} ranks of the run", size, context.world),
        "start equally many ranks on every node, or set a size that divides");
  if (!fsdp.shard_group_size && context.rank % size != context.local_rank)
    refuse_groups(fmt::format("null, but rank {} is number {} of the {} on its node, so that the "
                              "ranks of a node do not follow each other",
                              context.rank, context.local_rank, size),
                  "start the ranks in blocks (srun --distribution=block), equally many on every "
                  "node, or set the size");
  return size;
}

}  // namespace

bool is_critic(const config::Config& config) {
  return config.experiment.stage == Stage::critic;
}

bool has_value_head(const config::Config& config) {
  const config::Training& training = config.training;
  return is_critic(config) || (config.experiment.stage == Stage::verifiable &&
                               training.value.source == config::ValueSource::joint &&
                               training.td.control != config::TdControl::random);
}

std::optional<training::ValuePathOptions> value_head_options(const config::Config& config) {
  if (!has_value_head(config)) return std::nullopt;
  const config::ValueHead& head = config.training.value_head;
  return training::ValuePathOptions{.type = same_name<model::ValueHeadType>(head.type),
                                    .dropout = head.dropout,
                                    .freeze_last_bias = pairwise(config)};
}

DType compute_dtype(config::DType wanted, c10::Device device) {
  return device.is_cuda() ? tensor_dtype(wanted) : kFloat32;
}

DType tensor_dtype(config::DType dtype) {
  if (dtype == config::DType::fp32) return kFloat32;
  return dtype == config::DType::fp16 ? kFloat16 : kBFloat16;
}

parallel::ParallelOptions parallel_options(const config::Config& config,
                                           const RunContext& context) {
  const c10::Device device = context.device;
  const config::Fsdp& fsdp = config.distributed.fsdp;
  const config::ComputeDTypes dtypes = config::compute_dtypes(fsdp);
  parallel::ParallelOptions options;
  options.strategy = same_name<parallel::Strategy>(fsdp.sharding_strategy);
  if (options.strategy == parallel::Strategy::hybrid_shard)
    options.shard_group_size = shard_group_size(fsdp, context);
  options.param_dtype = compute_dtype(dtypes.param, device);
  options.reduce_dtype =
      device.is_cuda() && dtypes.reduce == config::ReduceDType::bf16 ? kBFloat16 : kFloat32;
  if (const auto stored = config::base_dtype(config)) options.frozen_dtype = tensor_dtype(*stored);
  options.device = device;
  options.cpu_offload = fsdp.cpu_offload;
  options.prefetch_forward = static_cast<int>(fsdp.prefetch.forward);
  options.prefetch_backward = static_cast<int>(fsdp.prefetch.backward);
  options.no_sync = fsdp.no_sync;
  options.frees_grads = device.is_cuda() && !options.offloads() &&
                        config::accumulation_steps(config, context.world) == 1;
  return options;
}

model::Recompute recompute_level(config::Recompute wanted) {
  switch (wanted) {
    case config::Recompute::none:
      return model::Recompute::none;
    case config::Recompute::light:
      return model::Recompute::light;
    case config::Recompute::block:
      return model::Recompute::block;
    case config::Recompute::automatic:
      break;
  }
  WMTP_CHECK(false, "activation_checkpointing: auto is no level");
}

optim::ParamGroups param_groups(const config::Config& config) {
  const config::Training& training = config.training;
  optim::ParamGroups groups;
  groups.groups = {
      {"policy", training.learning_rate, training.optimizer.weight_decay},
      {"lora", config::lora_learning_rate(config), config::lora_weight_decay(config)},
      {"value_head", training.value_head.learning_rate, training.value_head.weight_decay},
      // Pairs do not move it, and decay must not either.
      {"value_bias", training.value_head.learning_rate, 0}};
  const std::string fixed = !pairwise(config) ? ""
                            : training.value_head.type == config::ValueHeadType::mlp
                                ? "mlp.6.bias"
                                : "linear.bias";
  groups.group_of = [fixed](const layout::ParamSpec& param) -> std::size_t {
    if (param.name.starts_with("value_head."))
      return !fixed.empty() && param.name.ends_with(fixed) ? kFixedBias : kValueHead;
    return param.name.find("lora_") != param.name.npos ? kLora : kPolicy;
  };
  groups.decay_vectors = training.optimizer.no_decay == config::NoDecay::none;
  return groups;
}

optim::AdamWSettings adamw_settings(const config::Config& config) {
  const config::Optimizer& optimizer = config.training.optimizer;
  optim::AdamWSettings settings;
  settings.beta1 = optimizer.betas[0];
  settings.beta2 = optimizer.betas[1];
  settings.eps = optimizer.eps;
  settings.recipe = optim::recipe_from_name(config::name_of(optimizer.precision));
  settings.rounding_seed = static_cast<std::uint64_t>(config.runtime.seed);
  return settings;
}

optim::Schedule lr_schedule(const config::LrScheduler& wanted, std::int64_t num_steps,
                            double plateau_factor) {
  optim::Schedule schedule;
  schedule.type = same_name<optim::ScheduleType>(wanted.type);
  schedule.total_steps = num_steps;
  schedule.warmup_steps = optim::warmup_steps(num_steps, wanted.warmup_ratio, wanted.warmup_steps);
  schedule.min_ratio = wanted.min_lr_ratio;
  schedule.plateau_factor = plateau_factor;
  return schedule;
}

losses::Normalization loss_normalization(const config::Training& training) {
  return same_name<losses::Normalization>(training.loss_normalization);
}

training::VerifiableOptions verifiable_options(const config::Config& config) {
  const config::Training& training = config.training;
  const config::Td& td = training.td;
  training::VerifiableOptions options;
  options.normalization = loss_normalization(training);
  options.td = {same_name<weighting::TdMode>(td.mode), td.gamma, td.lambda, td.v_init,
                same_name<weighting::Terminal>(td.terminal)};
  options.weights = {td.beta, td.clip_min, td.clip_max};
  options.whiten = same_name<training::Whiten>(td.whiten);
  options.scope_ranks = td.scope == config::Scope::ranks;
  options.control = same_name<training::WeightControl>(td.control);
  if (options.control == training::WeightControl::random) {
    const weighting::Moments target{training.control.mean, training.control.std};
    options.random_law = training.control.match == config::ControlMatch::clipped
                             ? weighting::match_clipped(target, td.clip_min, td.clip_max)
                             : weighting::match_unclipped(target);
  }
  options.seed = static_cast<std::uint64_t>(config.runtime.seed);
  options.value_coef = training.value.coef;
  options.stop_gradient = training.value.stop_gradient;
  options.value_loss = value_loss_of(training.value_loss);
  options.lambda_schedule = lambda_of(training.value_loss.lambda_schedule);
  return options;
}

training::Rho1Options rho1_options(const config::Training& training) {
  training::Rho1Options options;
  options.normalization = loss_normalization(training);
  options.mode = same_name<weighting::Rho1Mode>(training.rho1.mode);
  options.k_percent = training.rho1.k_percent;
  options.scope_ranks = training.rho1.scope == config::Scope::ranks;
  options.first_head_always = training.rho1.first_head == config::Rho1FirstHead::always;
  return options;
}

training::CriticOptions critic_options(const config::Config& config) {
  const config::Training& training = config.training;
  training::CriticOptions options;
  options.loss = value_loss_of(training.value_loss);
  options.lambda_schedule = lambda_of(training.value_loss.lambda_schedule);
  options.coef = training.value_loss.coef;
  options.pairs = config.data_sampling.use_pairwise;
  options.backbone_learns = !training.backbone_frozen || training.use_lora;
  return options;
}

EventInterval validation_interval(const config::Config& config) {
  const config::Training& training = config.training;
  if (training.eval_every || training.eval_every_steps)
    return {training.eval_every, training.eval_every_steps};
  return save_interval(config);
}

EventInterval save_interval(const config::Config& config) {
  return {config.checkpoint.save_checkpoint_every, config.checkpoint.save_every_steps};
}

}  // namespace wmtp::run
