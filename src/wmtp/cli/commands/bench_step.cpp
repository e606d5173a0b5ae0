#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "wmtp/cli/commands/bench.h"
#include "wmtp/cli/rank_run.h"
#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/core/time.h"
#include "wmtp/model/presets.h"
#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/tensor/host_memory.h"
#include "wmtp/training/assemble.h"
#include "wmtp/training/flops.h"
#include "wmtp/training/memory_plan.h"
#include "wmtp/training/synthetic_batch.h"

namespace wmtp::cli {
namespace {

struct StepFlags {
  std::string preset = "small", strategy = "FULL_SHARD", recompute = "none", device = "auto", dtype,
              rows = "full";
  std::string backend = "auto", precision = "fp32";
  int batch = 4, seq = 512, steps = 10, warm = 2, heads = 0, accumulation = 1, threads = 0;
  int lora_rank = 0;  // 0: every parameter is trained
  double learning_rate = 1e-5, memory_gib = 0;
  bool shared_gpu = false, repeat_batch = false, offload = false;
};

model::ModelConfig shape_of(const StepFlags& flags) {
  model::ModelConfig config = model::preset(flags.preset);
  if (flags.heads > 0) {
    config.num_blocks = config.num_trunk_blocks() + flags.heads;
    config.n_future = flags.heads;
  }
  model::validate(config, "--preset " + flags.preset);
  return config;
}

model::Recompute recompute_from_name(const std::string& name) {
  return name == "none"    ? model::Recompute::none
         : name == "light" ? model::Recompute::light
                           : model::Recompute::block;
}

std::optional<model::LoraConfig> lora_of(const StepFlags& flags, const model::ModelConfig& config) {
  if (flags.lora_rank == 0) return std::nullopt;
  model::LoraConfig lora;  // the four attention projections of every block
  lora.rank = flags.lora_rank;
  lora.alpha = 2.0 * flags.lora_rank;
  return model::checked(std::move(lora), config);
}

// What the device has, unless the command line says less.
std::int64_t memory_limit(const StepFlags& flags, c10::Device device) {
  if (flags.memory_gib > 0) return static_cast<std::int64_t>(flags.memory_gib * (1 << 30));
  if (device.is_cuda()) return cuda_tables().services.device_info(device.index()).total_bytes;
  return ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGE_SIZE);
}

void settle_recompute(const StepFlags& flags, c10::Device device, int world,
                      training::AssembleOptions& options) {
  training::MemoryRequest request;
  request.model = options.model;
  request.lora = options.transformer.lora;
  request.parallel = options.parallel;
  request.world = world;
  request.recompute = options.transformer.recompute;
  request.tokens = static_cast<std::int64_t>(flags.batch) * flags.seq;
  const std::int64_t limit = memory_limit(flags, device);
  if (flags.recompute == "auto")
    options.transformer.recompute = training::choose_recompute(request, limit);
  else
    training::require_fit(request, limit);
}

training::AssembleOptions options_of(const StepFlags& flags, const model::ModelConfig& config,
                                     c10::Device device, int world) {
  const std::string dtype = !flags.dtype.empty() ? flags.dtype : device.is_cuda() ? "bf16" : "fp32";
  if (device.is_cpu() && dtype != "fp32")
    throw Error(ErrorKind::config, "bench", fmt::format("--dtype {} on a CPU", dtype),
                "CPU steps compute in fp32");
  training::AssembleOptions options;
  options.model = config;
  options.transformer.recompute = recompute_from_name(flags.recompute);
  options.transformer.lora = lora_of(flags, config);
  options.parallel.strategy = parallel::strategy_from_name(flags.strategy);
  options.parallel.param_dtype = dtype_from_name(dtype);
  options.parallel.device = device;
  options.parallel.cpu_offload = flags.offload;
  options.groups.groups = {
      {.name = "policy", .learning_rate = flags.learning_rate, .weight_decay = 0.01}};
  options.adamw.recipe = optim::recipe_from_name(flags.precision);
  options.parallel.master_dtype = optim::master_dtype(options.adamw.recipe);
  settle_recompute(flags, device, world, options);
  return options;
}

struct Measured {
  std::vector<double> seconds, rates, losses;
  double span = 0;  // of attention, over all tokens
  int skipped = 0;  // steps that updated nothing
};

// One step's batches are made inside the timed region, as a loop that trains does.
class Bench {
 public:
  Bench(const StepFlags& flags, const model::ModelConfig& config, comm::ProcessGroupSession& group,
        c10::Device device)
      : flags_(flags),
        config_(config),
        group_(group),
        device_(device),
        model_(options_of(flags, config, device, group.world()),
               {&group.gather_group(), &group.reduce_group()}) {
    const auto start = Clock::now();
    model_.runtime().fill(training::random_weights(config, 0));
    log::info("bench", "{:.1f} million weights drawn in {}",
              static_cast<double>(config.total_parameters()) / 1e6,
              format_duration(seconds_since(start)));
  }

  Measured run() {
    Measured measured;
    for (int i = 0; i < flags_.warm; ++i) {
      step(measured);
      if (i == 0) group_.check_order();
    }
    measured = {};
    group_.reduce_group().barrier();
    if (device_.is_cuda()) cuda_tables().services.reset_peak_memory(device_.index());
    for (int i = 0; i < flags_.steps; ++i) step(measured);
    measured.span = squares_ / static_cast<double>(tokens_);
    return measured;
  }

  training::TrainableModel& model() { return model_; }

 private:
  void step(Measured& measured) {
    const auto start = Clock::now();
    std::int64_t tokens = 0;
    const training::PendingResult pending = model_.step().run(next_input(tokens));
    const training::StepResult result = pending.read();  // the host waits, as the peer's loop does
    measured.losses.push_back(result.loss);
    measured.skipped += result.applied ? 0 : 1;
    measured.seconds.push_back(seconds_since(start));
    measured.rates.push_back(static_cast<double>(tokens) / measured.seconds.back());
  }

  training::StepInput next_input(std::int64_t& tokens) {
    const training::SyntheticShape shape{flags_.batch, flags_.seq, config_.vocab_size,
                                         flags_.rows == "mixed"};
    const int heads = static_cast<int>(config_.n_future), world = group_.world();
    training::StepInput input;
    input.facts.head_targets.assign(static_cast<std::size_t>(heads), 0);
    for (int i = 0; i < flags_.accumulation * world; ++i) {
      const bool mine = i % world == group_.rank();
      if (!mine && !shape.mixed) continue;
      const auto index = static_cast<std::uint64_t>((flags_.repeat_batch ? 0 : step_) * 1000 + i);
      const auto batch = training::synthetic_batch(shape, 1, index);
      const auto counts = training::count_targets(batch.view(), heads);
      const std::int64_t copies =
          shape.mixed ? 1 : world;  // full rows have equal counts on all ranks
      for (std::size_t k = 0; k < counts.size(); ++k)
        input.facts.head_targets[k] += counts[k] * copies;
      if (!mine) continue;
      input.micro_batches.push_back(training::upload(batch.view(), heads, model_.inv_freq()));
      tokens += static_cast<std::int64_t>(batch.tokens.size());
      note_span(batch);
    }
    ++step_;
    return input;
  }

  void note_span(const training::SyntheticBatch& batch) {
    for (std::size_t d = 0; d + 1 < batch.doc_start.size(); ++d) {
      const double length = batch.doc_start[d + 1] - batch.doc_start[d];
      squares_ += length * length;
    }
    tokens_ += static_cast<std::int64_t>(batch.tokens.size());
  }

  StepFlags flags_;
  model::ModelConfig config_;
  comm::ProcessGroupSession& group_;
  c10::Device device_;
  training::TrainableModel model_;
  int step_ = 0;
  std::int64_t tokens_ = 0;
  double squares_ = 0;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double flops_per_token(const StepFlags& flags, const model::ModelConfig& config, double span) {
  const auto lora = lora_of(flags, config);
  return lora ? training::lora_flops_per_token(
                    config, span, static_cast<double>(model::lora_parameters(config, *lora)))
              : training::training_flops_per_token(config, span);
}

double gib(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024 * 1024);
}

nlohmann::ordered_json report_of(const StepFlags& flags, const model::ModelConfig& config,
                                 Bench& bench, const Measured& measured, c10::Device device,
                                 int world, std::int64_t base_bytes) {
  const double rate = median(measured.rates);
  nlohmann::ordered_json fields{
      {"peer", "wmtp"},
      {"preset", flags.preset},
      {"strategy", parallel::name_of(bench.model().runtime().options().strategy)},
      {"world", world},
      {"batch", flags.batch},
      {"seq", flags.seq},
      {"rows", flags.rows},
      {"recompute", flags.recompute},
      {"dtype", name_of(bench.model().runtime().options().param_dtype)},
      {"precision", flags.precision},
      {"cpu_offload", flags.offload},
      {"params", config.total_parameters()},
      {"step_s", median(measured.seconds)},
      {"min_s", *std::ranges::min_element(measured.seconds)},
      {"tok_s_rank", rate},
      {"tflops", flops_per_token(flags, config, measured.span) * rate / 1e12}};
  if (const auto lora = lora_of(flags, config)) {
    fields["lora_rank"] = lora->rank;
    fields["trained_params"] = model::lora_parameters(config, *lora);
  }
  if (device.is_cuda()) {
    const GpuMemory memory = cuda_tables().services.memory(device.index());
    fields["peak_gib"] = gib(memory.peak_allocated_bytes);
    fields["reserved_gib"] = gib(memory.peak_reserved_bytes);
  } else {
    fields["peak_gib"] = gib(peak_resident_bytes());
    fields["base_gib"] = gib(base_bytes);
  }
  fields["state_gib"] =
      gib(bench.model().runtime().state_bytes() + bench.model().optimizer().state_bytes());
  fields["buffer_gib"] = gib(bench.model().runtime().buffer_bytes());
  fields["loss"] = measured.losses.back();
  fields["first_loss"] = measured.losses.front();
  fields["skipped_steps"] = measured.skipped;
  if (const auto* scale = bench.model().loss_scale()) fields["loss_scale"] = scale->state().scale;
  return fields;
}

int bench_step(const Session& session, const StepFlags& flags) {
  keep_freed_host_memory();
  RankRun run;
  run.launch = discover_launch();
  run.allow_shared_gpu = flags.shared_gpu;
  run.options.device = choose_device(run.launch, {flags.device, flags.shared_gpu});
  run.options.backend = flags.backend;
  set_threads(run.launch, flags.threads);
  const c10::Device device = run.options.device;
  return run_as_rank(session, std::move(run), [&](comm::ProcessGroupSession& group) {
    group.connect();
    const std::int64_t base_bytes = peak_resident_bytes();
    const model::ModelConfig config = shape_of(flags);
    Bench bench(flags, config, group, device);
    const Measured measured = bench.run();
    const auto fields =
        report_of(flags, config, bench, measured, device, group.world(), base_bytes);
    if (group.rank() == 0) emit_json("result", fields);
    return 0;
  });
}

}  // namespace

void add_bench_step(CLI::App& bench, Session& session) {
  CLI::App* command =
      bench.add_subcommand("step", "Training steps with random weights and tokens; one JSON line");
  command->footer(
      "  wmtp bench step --preset small --batch 4 --seq 256\n"
      "  wmtp launch --nproc 2 -- bench step --preset small --strategy FULL_SHARD");
  const auto flags = std::make_shared<StepFlags>();
  command->add_option("--preset", flags->preset, "Shape of the model")->type_name("NAME");
  command->add_option("--batch", flags->batch, "Rows per rank and micro-batch")
      ->check(CLI::PositiveNumber);
  command->add_option("--seq", flags->seq, "Tokens of a row")->check(CLI::Range(8, 1 << 20));
  command->add_option("--steps", flags->steps, "Timed steps")->check(CLI::PositiveNumber);
  command->add_option("--warm", flags->warm, "Steps before them")->check(CLI::NonNegativeNumber);
  command->add_option("--strategy", flags->strategy, "FULL_SHARD, SHARD_GRAD_OP or NO_SHARD");
  command
      ->add_option("--recompute", flags->recompute,
                   "Activations to recompute; auto: the least that fits --memory-gib")
      ->check(CLI::IsMember({"none", "light", "block", "auto"}));
  command
      ->add_option("--rows", flags->rows,
                   "full: every token a target; mixed: lengths seq/8..seq, half prompt")
      ->check(CLI::IsMember({"full", "mixed"}));
  command->add_option("--heads", flags->heads, "Prediction heads (0: the preset's)")
      ->check(CLI::Range(0, 16));
  command
      ->add_option("--lora", flags->lora_rank,
                   "Train adapters of this rank on the attention projections (0: all weights)")
      ->check(CLI::Range(0, 1024))
      ->type_name("RANK");
  command->add_option("--accumulation", flags->accumulation, "Micro-batches of a step")
      ->check(CLI::PositiveNumber);
  command->add_option("--device", flags->device, "auto, cuda or cpu");
  command
      ->add_option("--dtype", flags->dtype,
                   "bf16, fp16 or fp32; default bf16 on a GPU, fp32 on a CPU")
      ->check(CLI::IsMember({"bf16", "fp16", "fp32"}));
  command
      ->add_option("--memory-gib", flags->memory_gib,
                   "Memory of a rank; a plan that does not fit is an error")
      ->check(CLI::PositiveNumber);
  command->add_option("--lr", flags->learning_rate, "Learning rate")->check(CLI::NonNegativeNumber);
  command->add_option("--threads", flags->threads, "Threads of a rank (0: automatic)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--backend", flags->backend, "auto, gloo or nccl")
      ->check(CLI::IsMember({"auto", "gloo", "nccl"}));
  command->add_flag("--allow-shared-gpu", flags->shared_gpu,
                    "Several ranks on one GPU (with gloo)");
  command->add_flag("--repeat-batch", flags->repeat_batch,
                    "The same batch every step: the loss falls");
  command
      ->add_option("--precision", flags->precision,
                   "How the optimizer keeps masters and moments: fp32 or bf16_sr")
      ->check(CLI::IsMember({"fp32", "bf16_sr"}));
  command->add_flag("--cpu-offload", flags->offload, "Shards and optimizer in host memory");
  command->callback([&session, flags] {
    session.run = [&session, flags] { return bench_step(session, *flags); };
  });
}

}  // namespace wmtp::cli
