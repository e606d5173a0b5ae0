#include "wmtp/run/plan/policy.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "wmtp/config/derived.h"
#include "wmtp/config/shape_fields.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/model/hf_config.h"
#include "wmtp/model/init_weights.h"
#include "wmtp/model/presets.h"
#include "wmtp/models/base_fingerprint.h"
#include "wmtp/models/lora_settings.h"
#include "wmtp/models/merged_source.h"
#include "wmtp/models/open_model.h"
#include "wmtp/run/plan/memory_plan.h"

namespace wmtp::run {
namespace {

using config::Stage;

[[noreturn]] void refuse(const std::string& fact, const std::string& hint = {}) {
  throw Error(ErrorKind::config, "model", fact, hint);
}

bool critic(const config::Config& config) {
  return config.experiment.stage == Stage::critic;
}

// Whether the model carries a value head that learns.
bool has_value_head(const config::Config& config) {
  const config::Training& training = config.training;
  return critic(config) || (config.experiment.stage == Stage::verifiable &&
                            training.value.source == config::ValueSource::joint &&
                            training.td.control != config::TdControl::random);
}

bool pairwise(const config::Config& config) {
  return config.training.value_loss.type == config::ValueLossType::pairwise_ranking;
}

// Of the weights that do not learn: a critic's backbone may be a model of its own.
std::optional<config::DType> frozen_dtype(const config::Config& config) {
  return critic(config) && config.models.value_model.path ? config.models.value_model.dtype
                                                          : config.models.policy.dtype;
}

parallel::ParallelOptions parallel_options(const config::Config& config, const RunSite& site) {
  const config::Fsdp& fsdp = config.distributed.fsdp;
  const config::ComputeDTypes dtypes = config::compute_dtypes(fsdp);
  parallel::ParallelOptions options;
  options.strategy = parallel::strategy_from_name(config::name_of(fsdp.sharding_strategy));
  options.param_dtype = compute_dtype(dtypes.param, site.device);
  options.reduce_dtype =
      site.device.is_cuda() && dtypes.reduce == config::ReduceDType::bf16 ? kBFloat16 : kFloat32;
  if (const auto stored = frozen_dtype(config)) options.frozen_dtype = tensor_dtype(*stored);
  options.device = site.device;
  options.cpu_offload = fsdp.cpu_offload;
  options.prefetch_forward = static_cast<int>(fsdp.prefetch.forward);
  options.prefetch_backward = static_cast<int>(fsdp.prefetch.backward);
  options.no_sync = fsdp.no_sync;
  return options;
}

void tell_cpu_precision(const config::Config& config, c10::Device device) {
  const config::ComputeDTypes dtypes = config::compute_dtypes(config.distributed.fsdp);
  if (!device.is_cpu() ||
      (dtypes.param == config::DType::fp32 && dtypes.reduce == config::ReduceDType::fp32))
    return;
  log::info("train",
            "the CPU computes and reduces in fp32: distributed.fsdp.mixed_precision, param_dtype "
            "and reduce_dtype are for GPUs");
}

enum Group : std::size_t { kPolicy, kLora, kValueHead, kFixedBias };

optim::ParamGroups groups_of(const config::Config& config) {
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

optim::AdamWSettings adamw_of(const config::Config& config) {
  const config::Optimizer& optimizer = config.training.optimizer;
  optim::AdamWSettings settings;
  settings.beta1 = optimizer.betas[0];
  settings.beta2 = optimizer.betas[1];
  settings.eps = optimizer.eps;
  settings.recipe = optimizer.precision == config::OptimizerPrecision::bf16_sr
                        ? optim::Recipe::bf16_sr
                        : optim::Recipe::fp32;
  settings.rounding_seed = static_cast<std::uint64_t>(config.runtime.seed);
  return settings;
}

// Adapters and the value head begin anew unless the source brings them.
parallel::Fill complete_fill(const config::Config& config, const models::ModelSource& source,
                             const training::AssembleOptions& assemble, const RunSite& site) {
  const auto seed = static_cast<std::uint64_t>(config.runtime.seed);
  parallel::Fill value_fill;
  if (assemble.value_head) {
    const auto& init_from = config.training.value.init_from;
    if (init_from) {
      const models::ModelSource critic =
          models::open_model_source(init_from->string(), site.environment);
      if (critic.value_head != assemble.value_head->type || critic.config.dim != assemble.model.dim)
        refuse(fmt::format("training.value.init_from: {} has {} of width {}, this run needs a {} "
                           "head of width {}",
                           init_from->string(),
                           critic.value_head
                               ? fmt::format("a {} value head", model::name_of(*critic.value_head))
                               : "no value head",
                           critic.config.dim, model::name_of(assemble.value_head->type),
                           assemble.model.dim),
               "name the `final` folder of a critic run of the same backbone");
      value_fill = critic.fill;
    } else {
      if (!critic(config) && site.rank == 0)
        log::warn("train",
                  "the value head begins at zero: training.value.init_from names no critic");
      const auto head =
          std::make_shared<model::ValueHead>(assemble.value_head->type, assemble.model.dim);
      const double bias = config.training.value_loss.bias_init.value_or(0);
      value_fill = [head, seed, bias](const layout::ParamSpec& param, std::int64_t begin,
                                      const Tensor& out) {
        head->draw(param, seed, bias, begin, out);
      };
    }
  }
  return [fill = source.fill, value_fill, seed](const layout::ParamSpec& param, std::int64_t begin,
                                                const Tensor& out) {
    if (param.name.starts_with("value_head.")) return value_fill(param, begin, out);
    if (param.name.find(".lora_") != param.name.npos)
      return model::draw_weights(param, seed, 0, begin, out);
    fill(param, begin, out);
  };
}

MemoryRequest memory_request(const config::Config& config, const RunSite& site,
                             const PolicyPlan& plan) {
  const training::AssembleOptions& assemble = plan.assemble;
  MemoryRequest request;
  request.model = assemble.model;
  request.lora = assemble.transformer.lora;
  request.frozen = assemble.frozen;
  request.heads = plan.predicts;
  if (assemble.value_head) request.value_head = assemble.value_head->type;
  if (plan.frozen) request.other = plan.frozen->memory_request();
  request.parallel = assemble.parallel;
  if (assemble.adamw.recipe == optim::Recipe::bf16_sr)
    request.parallel.master_dtype = optim::master_dtype(assemble.adamw.recipe);
  request.world = site.world;
  request.tokens = config.training.batch_size * config.dataset.max_length *
                   (config.data_sampling.use_pairwise ? 2 : 1);
  return request;
}

// The frozen model is replicated where that fits, and sharded before more is recomputed.
bool place_frozen(MemoryRequest& request, std::int64_t limit_bytes, const FrozenPlan& frozen) {
  const bool may_choose = frozen.placement == config::Placement::automatic && request.world > 1;
  if (!may_choose) return fits(request, limit_bytes);
  request.other->shard = false;
  if (fits(request, limit_bytes)) return true;
  request.other->shard = true;
  return fits(request, limit_bytes);
}

// What of activations is recomputed, and whether the run fits at all.
void settle_memory(const config::Config& config, const RunSite& site, PolicyPlan& plan) {
  MemoryRequest request = memory_request(config, site, plan);
  const auto wanted = config.distributed.fsdp.activation_checkpointing;
  const bool automatic = wanted == config::Recompute::automatic;
  std::vector<model::Recompute> levels{model::Recompute::none, model::Recompute::light,
                                       model::Recompute::block};
  if (!automatic) levels = {static_cast<model::Recompute>(wanted)};
  for (const model::Recompute level : levels) {
    request.recompute = level;
    if (plan.frozen ? place_frozen(request, site.memory_bytes, *plan.frozen)
                    : fits(request, site.memory_bytes))
      break;
  }
  require_fit(request, site.memory_bytes);
  plan.memory = plan_memory(request);
  plan.assemble.transformer.recompute = request.recompute;
  if (plan.frozen) plan.frozen->options.shard = request.other->shard;
  if (!automatic) return;
  constexpr const char* kNames[] = {"none", "light", "block"};
  plan.recompute_reason =
      fmt::format("activation_checkpointing: {} is the least that fits into {:.1f} GiB",
                  kNames[static_cast<int>(request.recompute)],
                  static_cast<double>(site.memory_bytes) / (1 << 30));
}

// Whether adapters alone say what this run learned, and what is asked of the export.
void settle_base(const config::Config& config, bool base_is_incomplete, PolicyPlan& plan) {
  plan.adapters_suffice = !base_is_incomplete;
  if (base_is_incomplete && config.checkpoint.export_on_finish == config::ExportFormat::peft)
    refuse(fmt::format("checkpoint.export_on_finish: peft needs a whole base on disk, but {} is an "
                       "adapter itself or has weights that are drawn here",
                       plan.base_model),
           "set hf, which writes the merged model");
}

}  // namespace

PolicyPlan plan_policy(const config::Config& config, const RunSite& site) {
  PolicyPlan plan;
  const models::BaseSource base = models::open_base(config, site.environment);
  const models::ModelSource& source = base.source;
  plan.base_model = base.name;
  settle_base(config, base.has_random_weights || !source.base_model.empty(), plan);
  plan.base_fingerprint = source.fingerprint;
  plan.generation_config = source.generation_config;
  if (!source.read_from.empty()) plan.base_folder = source.read_from.front();
  const auto& tokenizer = config.models.policy.tokenizer_path;
  plan.tokenizer_folder = tokenizer ? weights::locate_model(tokenizer->text, site.environment)
                                    : source.tokenizer_folder;
  plan.predicts = !critic(config);
  training::AssembleOptions& assemble = plan.assemble;
  assemble.model = source.config;
  assemble.transformer.lora = models::lora_of(config, source.config);
  assemble.transformer.loss_chunk_rows = config.runtime.loss_chunk_rows;
  assemble.frozen = critic(config) && config.training.backbone_frozen && !config.training.use_lora;
  if (has_value_head(config))
    assemble.value_head = training::ValuePathOptions{
        .type = static_cast<model::ValueHeadType>(config.training.value_head.type),
        .dropout = config.training.value_head.dropout,
        .freeze_last_bias = pairwise(config)};
  assemble.parallel = parallel_options(config, site);
  if (site.rank == 0) tell_cpu_precision(config, site.device);
  assemble.groups = groups_of(config);
  assemble.adamw = adamw_of(config);
  assemble.step.max_grad_norm = config.training.max_grad_norm.value_or(0);
  plan.fill = complete_fill(config, source, assemble, site);
  plan.frozen = plan_frozen(config, site, assemble.model.vocab_size, plan.tokenizer_folder);
  settle_memory(config, site, plan);
  if (site.rank == 0) log::debug("train", "memory of a rank:\n{}", plan.memory.table());
  return plan;
}

}  // namespace wmtp::run
