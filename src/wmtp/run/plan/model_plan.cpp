#include "wmtp/run/plan/model_plan.h"

#include <fmt/format.h>

#include "wmtp/config/derived.h"
#include "wmtp/core/log.h"
#include "wmtp/model/init_weights.h"
#include "wmtp/model/weight_names.h"
#include "wmtp/models/lora_settings.h"
#include "wmtp/models/remote/model_copy.h"
#include "wmtp/run/plan/fit_memory.h"
#include "wmtp/run/plan/from_config.h"
#include "wmtp/run/plan/kernels/attention_choice.h"
#include "wmtp/run/plan/kernels/cuda_graphs.h"
#include "wmtp/run/plan/kernels/float8_choice.h"
#include "wmtp/run/plan/kernels/gemm_choice.h"

namespace wmtp::run {
namespace {

[[noreturn]] void refuse(const std::string& fact, const std::string& hint = {}) {
  throw Error(ErrorKind::config, "model", fact, hint);
}

// Matrices that NF4 cannot hold, which a user would miss in the memory plan.
void tell_unquantized(const char* key, std::vector<layout::UnitSpec> units) {
  const std::vector<std::string> left = model::quantize_projections(units);
  if (left.empty()) return;
  log::info("train",
            "{}: {} matri{} stay{} as they are, no whole number of blocks of 64 weights: {}{}", key,
            left.size(), left.size() == 1 ? "x" : "ces", left.size() == 1 ? "s" : "", left.front(),
            left.size() == 1 ? "" : ", ...");
}

void tell_groups(const parallel::ParallelOptions& options, int world) {
  if (options.strategy != parallel::Strategy::hybrid_shard) return;
  const parallel::Placement place = parallel::placement_of(options, 0, world);
  log::info("train", "HYBRID_SHARD: {} group{} of {} rank{}", place.num_replicas(),
            place.num_replicas() == 1 ? "" : "s", place.shard_world,
            place.shard_world == 1 ? "" : "s");
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

// Reads the base from its source; adapters and the value head are initialised here unless the
// source brings them.
parallel::ReadParam complete_fill(const config::Config& config, const models::ModelSource& source,
                                  const training::AssembleOptions& assemble,
                                  const RunContext& context) {
  const auto seed = static_cast<std::uint64_t>(config.runtime.seed);
  parallel::ReadParam value_fill;
  if (assemble.value_head) {
    const auto& init_from = config.training.value.init_from;
    if (init_from) {
      const models::ModelSource critic =
          models::open_model_source(init_from->string(), context.environment);
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
      if (!is_critic(config) && context.rank == 0)
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
      return model::random_init(param, seed, 0, begin, out);
    fill(param, begin, out);
  };
}

// Of a micro-batch.
std::int64_t sequences(const config::Config& config) {
  return config.training.batch_size * (config.data_sampling.use_pairwise ? 2 : 1);
}

// The last document of packed ones may be a filler.
AttendingModel attending_model(const config::Config& config, const model::ModelConfig& model,
                               DType dtype) {
  return {.words = "model",
          .config = model,
          .dtype = dtype,
          .num_documents = sequences(config) + (config.dataset.packing ? 1 : 0),
          .max_length = config.dataset.max_length};
}

MemoryRequest memory_request(const config::Config& config, const RunContext& context,
                             const ModelPlan& plan) {
  const training::AssembleOptions& assemble = plan.assemble;
  MemoryRequest request;
  request.model = assemble.model;
  request.lora = assemble.transformer.lora;
  request.frozen = assemble.frozen;
  request.quantize = assemble.quantize;
  request.float8 = assemble.transformer.float8;
  request.heads = plan.predicts;
  if (assemble.value_head) request.value_head = assemble.value_head->type;
  if (plan.frozen) request.other = plan.frozen->memory_request();
  request.parallel = training::parallel_of(assemble);
  request.recipe = assemble.adamw.recipe;
  request.world = context.world;
  request.tokens = sequences(config) * config.dataset.max_length;
  request.packed_cudnn =
      config.runtime.attention == config::AttentionKernel::cudnn && context.device.is_cuda();
  if (request.packed_cudnn)
    request.stored_score_bytes = stored_score_bytes(
        config.runtime, attending_model(config, assemble.model, assemble.parallel.param_dtype));
  request.micro_batches = config::accumulation_steps(config, context.world);
  request.loss_chunk_rows = config.runtime.loss_chunk_rows;
  request.num_graphs = assemble.step.num_graphs();
  return request;
}

// What of activations is recomputed, and whether the run fits at all.
void choose_memory(const config::Config& config, const RunContext& context, ModelPlan& plan) {
  const auto wanted = config.distributed.fsdp.activation_checkpointing;
  const bool automatic = wanted == config::Recompute::automatic;
  MemoryRequest request = memory_request(config, context, plan);
  if (!automatic) request.recompute = recompute_level(wanted);
  const bool may_shard =
      plan.frozen && plan.frozen->placement == config::Placement::automatic && request.world > 1;
  fit_memory(request, context.memory_bytes, {.recompute = automatic, .shard_frozen = may_shard});
  plan.memory = plan_memory(request);
  plan.memory_request = request;
  plan.assemble.transformer.recompute = request.recompute;
  if (plan.frozen) plan.frozen->options.shard = request.other->shard;
  if (!automatic) return;
  constexpr const char* kNames[] = {"none", "light", "block"};
  plan.recompute_reason =
      fmt::format("activation_checkpointing: {} is the least that fits into {:.1f} GiB",
                  kNames[static_cast<int>(request.recompute)],
                  static_cast<double>(context.memory_bytes) / (1 << 30));
}

// Whether adapters alone say what this run learned, and what is asked of the export. A base in NF4
// is merged into a model of more bits only where that is asked for.
void check_base(const config::Config& config, bool base_is_incomplete, ModelPlan& plan) {
  plan.adapters_suffice = !base_is_incomplete;
  const bool merges = base_is_incomplete || config.training.lora.train_heads;
  if (merges && config::base_quantize(config) != config::Quantize::none &&
      config.checkpoint.export_on_finish == config::ExportFormat::automatic)
    refuse(fmt::format("checkpoint.export_on_finish: auto would merge adapters into a base in NF4, "
                       "since {}",
                       base_is_incomplete ? "no folder holds that base"
                                          : "training.lora.train_heads trains whole blocks"),
           "set hf to write the dequantised weights with the adapters in them, or none");
  if (base_is_incomplete && config.checkpoint.export_on_finish == config::ExportFormat::peft)
    refuse(fmt::format("checkpoint.export_on_finish: peft needs a whole base on disk, but {} is an "
                       "adapter itself or has weights that are drawn here",
                       plan.base_model),
           "set hf, which writes the merged model");
}

void tell_quantized(const config::Config& config, c10::Device device, const ModelPlan& plan) {
  const bool frozen = plan.frozen && plan.frozen->options.quantize;
  if (plan.assemble.quantize) {
    const bool policy = config.models.policy.quantize != config::Quantize::none;
    tell_unquantized(policy ? "models.policy.quantize" : "models.value_model.quantize",
                     training::trainable_units(plan.assemble));
  }
  if (frozen) {
    const bool reference = config.experiment.stage == config::Stage::rho1;
    tell_unquantized(reference ? "models.reference.quantize" : "models.value_model.quantize",
                     training::frozen_units(plan.frozen->source, plan.frozen->options.use));
  }
  if (device.is_cuda() && (frozen || plan.assemble.quantize))
    log::info(
        "train",
        "NF4 has never run on a GPU: its kernel was held to the CPU's bits by emulation only");
}

void tell_recipe(const training::AssembleOptions& assemble, c10::Device device) {
  if (!device.is_cuda()) return;
  if (training::parallel_of(assemble).splits(/*full_precision=*/false))
    log::info("train",
              "masters lie in two planes of 16 bits: no run of that on a GPU is on record, its "
              "kernels were held to the CPU's bits by emulation");
  const optim::Recipe recipe = assemble.adamw.recipe;
  if (optim::has_run_on_gpu(recipe)) return;
  log::info("train",
            "training.optimizer.precision: {} has never run on a GPU: its kernels were held to the "
            "CPU's numbers by emulation only",
            optim::name_of(recipe));
}

void tell_float8(config::Float8 wanted) {
  if (wanted == config::Float8::off) return;
  log::info(
      "train",
      "training.float8: {} has never run on a GPU: its kernels were held to the CPU's bits by "
      "emulation only",
      config::name_of(wanted));
}

}  // namespace

OpenedModels open_models(const config::Config& config, const RunContext& context) {
  OpenedModels opened;
  opened.base = models::open_base(config, context.environment);
  const auto& tokenizer = config.models.policy.tokenizer_path;
  opened.tokenizer_folder = tokenizer
                                ? models::locate_tokenizer(tokenizer->text, context.environment)
                                : opened.base.source.tokenizer_folder;
  opened.frozen =
      plan_frozen(config, context, opened.base.source.config.vocab_size, opened.tokenizer_folder);
  return opened;
}

bool is_too_large(const Error& error) {
  return error.module() == "memory";
}

ModelPlan plan_model(const config::Config& config, const RunContext& context) {
  return plan_model(config, context, open_models(config, context));
}

ModelPlan plan_model(const config::Config& config, const RunContext& context,
                     const OpenedModels& opened) {
  ModelPlan plan;
  const models::BaseSource& base = opened.base;
  const models::ModelSource& source = base.source;
  plan.base_model = base.name;
  check_base(config, base.has_random_weights || !source.base_model.empty(), plan);
  plan.base_fingerprint = source.fingerprint;
  plan.generation_config = source.generation_config;
  if (!source.read_from.empty()) plan.base_folder = source.read_from.front();
  plan.tokenizer_folder = opened.tokenizer_folder;
  plan.predicts = !is_critic(config);
  training::AssembleOptions& assemble = plan.assemble;
  assemble.model = source.config;
  assemble.transformer.lora = models::lora_of(config, source.config);
  assemble.transformer.loss_chunk_rows = config.runtime.loss_chunk_rows;
  assemble.frozen =
      is_critic(config) && config.training.backbone_frozen && !config.training.use_lora;
  assemble.quantize = config::base_quantize(config) == config::Quantize::nf4;
  assemble.value_head = value_head_options(config);
  assemble.parallel = parallel_options(config, context);
  assemble.transformer.float8 = float8_recipe(config.training.float8, "training.float8",
                                              source.config, assemble.parallel, context.named_gpu);
  assemble.transformer.attention = attention_options(
      config.runtime, attending_model(config, source.config, assemble.parallel.param_dtype),
      context.device, context.named_gpu);
  if (context.rank == 0) tell_cpu_precision(config, context.device);
  if (context.rank == 0) tell_groups(assemble.parallel, context.world);
  assemble.groups = param_groups(config);
  assemble.adamw = adamw_settings(config);
  assemble.step.max_grad_norm = config.training.max_grad_norm.value_or(0);
  plan.fill = complete_fill(config, source, assemble, context);
  plan.stored_nf4 = source.stored_nf4;
  plan.frozen = opened.frozen;
  if (context.rank == 0) tell_quantized(config, context.device, plan);
  if (context.rank == 0) tell_recipe(assemble, context.device);
  if (context.rank == 0) tell_float8(config.training.float8);
  if (context.rank == 0) tell_attention(config.runtime.attention, context.device);
  check_gemm_choice(config.runtime.gemm_choice, "runtime.gemm_choice:", context.device,
                    assemble.parallel.param_dtype);
  if (context.rank == 0) tell_gemm_choice(config.runtime.gemm_choice);
  assemble.step.cuda_graphs = wants_cuda_graphs(config.runtime);
  check_cuda_graphs("runtime.cuda_graphs: on",
                    {assemble, context.world,
                     config.experiment.stage == config::Stage::rho1 &&
                         config.training.rho1.scope == config::Scope::ranks});
  if (context.rank == 0) tell_cuda_graphs(assemble.step);
  if (plan.frozen && assemble.parallel.strategy == parallel::Strategy::hybrid_shard)
    plan.frozen->options.shard_group_size = assemble.parallel.shard_group_size;
  choose_memory(config, context, plan);
  if (context.rank == 0) log::debug("train", "memory of a rank:\n{}", plan.memory.table());
  return plan;
}

}  // namespace wmtp::run
