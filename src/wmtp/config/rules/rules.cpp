#include "wmtp/config/rules/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "wmtp/config/derived.h"

namespace wmtp::config {
namespace {

bool is_run_name(const std::string& name) {
  return !name.empty() && name.size() <= 128 && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return (c < 0x80 && std::isalnum(c)) || c == '.' || c == '_' || c == '-';
         });
}

// User-info of a URL, "user:password@", must not reach logs and checkpoints.
bool has_user_info(const std::string& url) {
  const auto start = url.find("://");
  if (start == url.npos) return false;
  const std::string host = url.substr(start + 3, url.find('/', start + 3) - start - 3);
  return host.find('@') != host.npos;
}

void check_url(const RuleContext& context, const char* key, const std::string& url) {
  if (url.empty()) return;
  if (!url.starts_with("http://") && !url.starts_with("https://"))
    context.fail({key}, "expected an address that starts with http:// or https://");
  else if (has_user_info(url))
    context.fail(
        {key},
        "user names and passwords in a URL are refused; credentials come from the environment");
}

void check_batches(const RuleContext& context) {
  const Training& training = context.config.training;
  if (training.global_batch_size && training.gradient_accumulation_steps != 1)
    context.fail({"training.global_batch_size", "training.gradient_accumulation_steps"},
                 "global_batch_size sets the accumulation: leave out gradient_accumulation_steps");
  if (!context.world_size || !training.global_batch_size) return;
  const std::int64_t per_step = *context.world_size * training.batch_size;
  if (*training.global_batch_size % per_step != 0)
    context.fail(
        {"training.global_batch_size", "training.batch_size"},
        fmt::format("{} does not divide by {} ranks * batch_size {}", *training.global_batch_size,
                    *context.world_size, training.batch_size));
}

void check_shard_groups(const RuleContext& context) {
  const Fsdp& fsdp = context.config.distributed.fsdp;
  if (fsdp.sharding_strategy != ShardingStrategy::hybrid_shard || !fsdp.shard_group_size) return;
  if (context.world_size && *context.world_size % *fsdp.shard_group_size != 0)
    context.fail({"distributed.fsdp.shard_group_size"},
                 fmt::format("groups of {} do not divide the {} ranks of the run",
                             *fsdp.shard_group_size, *context.world_size));
}

void check_console_ranks(const RuleContext& context) {
  for (const std::int64_t rank : context.config.logging.console_ranks.ranks)
    if (context.world_size && rank >= *context.world_size)
      context.fail(
          {"logging.console_ranks"},
          fmt::format(
              "there is no rank {}: the run has {}, counted from 0", rank,
              *context.world_size == 1 ? "1 rank" : fmt::format("{} ranks", *context.world_size)));
}

void check_scheduler(const RuleContext& context) {
  const Training& training = context.config.training;
  const LrScheduler& scheduler = training.lr_scheduler;
  if (scheduler.type == LrSchedule::exponential && scheduler.min_lr_ratio <= 0)
    context.fail({"training.lr_scheduler.type", "training.lr_scheduler.min_lr_ratio"},
                 "exponential needs min_lr_ratio > 0");
  if (scheduler.type == LrSchedule::plateau && !context.config.dataset.validation)
    context.fail({"training.lr_scheduler.type", "dataset.validation"},
                 "plateau needs dataset.validation");
  if (training.early_stop_patience && !context.config.dataset.validation)
    context.fail({"training.early_stop_patience", "dataset.validation"},
                 "needs dataset.validation");
  if (training.max_steps && scheduler.warmup_steps.value_or(0) >= *training.max_steps)
    context.notices.push_back(
        fmt::format("training.lr_scheduler.warmup_steps {} is cut to {}, one below max_steps",
                    *scheduler.warmup_steps, *training.max_steps - 1));
}

void check_precision(const RuleContext& context) {
  const Fsdp& fsdp = context.config.distributed.fsdp;
  const ComputeDTypes dtypes = compute_dtypes(fsdp);
  const bool on_cpu = context.config.runtime.device == DeviceChoice::cpu;
  if (dtypes.reduce == ReduceDType::bf16 && dtypes.param == DType::fp32)
    context.fail({"distributed.fsdp.reduce_dtype", "distributed.fsdp.param_dtype",
                  "distributed.fsdp.mixed_precision"},
                 "bf16 reduction with fp32 parameters is refused");
  if (fsdp.param_dtype == DType::fp16 && on_cpu)
    context.fail({"distributed.fsdp.param_dtype", "runtime.device"},
                 "fp16 needs CUDA, the device is cpu");
  if (fsdp.cpu_offload && on_cpu)
    context.notices.push_back("distributed.fsdp.cpu_offload does nothing on the CPU");
}

void check_quantized_base(const RuleContext& context) {
  const Config& config = context.config;
  if (base_quantize(config) == Quantize::none || config.training.use_lora) return;
  const bool policy = config.models.policy.quantize != Quantize::none;
  context.fail(
      {policy ? "models.policy.quantize" : "models.value_model.quantize", "training.use_lora"},
      "nf4 needs training.use_lora: weights in 4 bits do not learn, adapters on them do");
}

void check_deterministic(const RuleContext& context) {
  const Runtime& runtime = context.config.runtime;
  if (runtime.deterministic && runtime.threads == 0)
    context.fail({"runtime.deterministic", "runtime.threads"},
                 "needs runtime.threads: with 0 the machine decides how many there are, and sums "
                 "are split by threads");
  if (runtime.deterministic && runtime.gemm_choice == GemmChoice::measured)
    context.fail({"runtime.gemm_choice", "runtime.deterministic"},
                 "measured cannot be deterministic: what is fastest is found by timing");
}

}  // namespace

void check_model_rules(const RuleContext& context) {
  const Config& config = context.config;
  if (!is_run_name(config.experiment.name))
    context.fail({"experiment.name"},
                 "expected 1 to 128 of A-Z a-z 0-9 . _ -, and not \".\" or \"..\"");
  if (config.experiment.tags.size() > 64)
    context.fail({"experiment.tags"},
                 fmt::format("{} tags, the limit is 64", config.experiment.tags.size()));
  const Lora& lora = config.training.lora;
  if (lora.train_heads && lora.scope != LoraScope::trunk)
    context.fail({"training.lora.train_heads", "training.lora.scope"}, "needs lora.scope: trunk");
  if (config.training.use_lora && lora.target_modules.empty())
    context.fail({"training.lora.target_modules", "training.use_lora"},
                 "use_lora needs at least one module");
  check_url(context, "mlflow.tracking_uri", config.mlflow.tracking_uri);
  check_url(context, "storage.s3.endpoint", config.storage.s3.endpoint);
}

void check_run_rules(const RuleContext& context) {
  const Config& config = context.config;
  check_batches(context);
  check_scheduler(context);
  check_precision(context);
  check_quantized_base(context);
  check_deterministic(context);
  check_shard_groups(context);
  if (config.checkpoint.save_dir.native().starts_with("s3://"))
    context.fail({"checkpoint.save_dir"},
                 "checkpoints are saved to a disk; checkpoint.s3_upload copies each one to "
                 "storage.s3, and `wmtp checkpoint push` copies one by hand");
  if (config.checkpoint.s3_upload && config.storage.s3.bucket.empty())
    context.fail({"checkpoint.s3_upload", "storage.s3.bucket"}, "needs storage.s3.bucket");
  if (config.checkpoint.export_on_finish == ExportFormat::peft && !config.training.use_lora)
    context.fail({"checkpoint.export_on_finish", "training.use_lora"},
                 "peft needs training.use_lora");
  if (config.checkpoint.save_lora_only && !config.training.use_lora)
    context.fail({"checkpoint.save_lora_only", "training.use_lora"}, "needs training.use_lora");
  if (config.runtime.device == DeviceChoice::mps && context.world_size.value_or(1) > 1)
    context.fail({"runtime.device"},
                 fmt::format("mps needs one rank, there are {}", *context.world_size));
  check_console_ranks(context);
  if (config.distributed.backend == Backend::nccl && config.runtime.device != DeviceChoice::cuda &&
      config.runtime.device != DeviceChoice::automatic)
    context.fail({"distributed.backend", "runtime.device"},
                 "nccl needs CUDA and a GPU for each rank; use auto or gloo");
}

}  // namespace wmtp::config
