#include "wmtp/bench/step_benchmark.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "wmtp/core/error.h"
#include "wmtp/core/log.h"
#include "wmtp/core/time.h"
#include "wmtp/kernels/gpu/products.h"
#include "wmtp/model/presets.h"
#include "wmtp/run/plan/kernels/cuda_graphs.h"
#include "wmtp/run/plan/kernels/float8_choice.h"
#include "wmtp/run/plan/kernels/gemm_choice.h"
#include "wmtp/run/profile/step_profile.h"
#include "wmtp/run/profile/time_table.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/tensor/profile_scope.h"
#include "wmtp/training/objectives/baseline.h"

namespace wmtp::bench {
namespace {

model::ModelConfig shape_of(const StepFlags& flags) {
  model::ModelConfig config = model::preset(flags.preset);
  if (flags.heads > 0) {
    config.num_blocks = config.num_trunk_blocks() + flags.heads;
    config.n_future = flags.heads;
    // One head has a block too where the preset's heads have: the shapes differ in heads alone.
    if (flags.heads == 1 && config.architecture == model::Architecture::llama_mtp)
      config.architecture = model::Architecture::llama;
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
  model::LoraConfig lora;
  lora.rank = flags.lora_rank;
  lora.targets = flags.lora_targets;
  lora.alpha = 2.0 * flags.lora_rank;
  return model::checked(std::move(lora), config);
}

// What the device has, unless the command line says less.
std::int64_t memory_limit(const StepFlags& flags, c10::Device device) {
  if (flags.memory_gib > 0) return static_cast<std::int64_t>(flags.memory_gib * (1 << 30));
  if (device.is_cuda()) return cuda_tables().services.device_info(device.index()).total_bytes;
  return ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGE_SIZE);
}

run::MemoryRequest memory_request(const StepFlags& flags, const BenchStage& stage, int world,
                                  const training::AssembleOptions& options) {
  run::MemoryRequest request;
  request.model = options.model;
  request.lora = options.transformer.lora;
  request.frozen = options.frozen;
  request.quantize = options.quantize;
  request.float8 = options.transformer.float8;
  request.heads = stage.predicts();
  if (options.value_head) request.value_head = options.value_head->type;
  request.other = stage.frozen_request(options);
  request.parallel = training::parallel_of(options);
  request.recipe = options.adamw.recipe;
  request.world = world;
  request.recompute = options.transformer.recompute;
  request.tokens = static_cast<std::int64_t>(flags.batch) * flags.seq;
  request.micro_batches = flags.accumulation;
  request.num_graphs = options.step.num_graphs();
  return request;
}

void check_quantize(const StepFlags& flags) {
  if (flags.quantize != "none" && flags.lora_rank == 0)
    throw Error(ErrorKind::config, "bench", "--quantize nf4 without --lora: nothing is frozen",
                "weights in 4 bits do not learn, adapters on them do");
}

config::Float8 float8_from_name(const std::string& name) {
  const auto& names = config::EnumNames<config::Float8>::names;
  return static_cast<config::Float8>(std::ranges::find(names, name) - names.begin());
}

void choose_products(const StepFlags& flags, const parallel::ParallelOptions& parallel) {
  if (flags.gemm_choice != "measured") return;
  run::check_gemm_choice(config::GemmChoice::measured, "--gemm-choice", parallel.device,
                         parallel.param_dtype);
  kernels::gpu::measure_products({});
}

training::AssembleOptions options_of(const StepFlags& flags, const model::ModelConfig& config,
                                     c10::Device device, int world, BenchStage& stage) {
  const std::string dtype = !flags.dtype.empty() ? flags.dtype : device.is_cuda() ? "bf16" : "fp32";
  if (device.is_cpu() && dtype != "fp32")
    throw Error(ErrorKind::config, "bench", fmt::format("--dtype {} on a CPU", dtype),
                "CPU steps compute in fp32");
  check_quantize(flags);
  training::AssembleOptions options;
  options.quantize = flags.quantize == "nf4";
  options.model = stage.model(config);
  options.transformer.recompute = recompute_from_name(flags.recompute);
  options.transformer.lora = lora_of(flags, options.model);
  set_strategy(flags.strategy, world, options.parallel);
  options.parallel.param_dtype = dtype_from_name(dtype);
  options.parallel.device = device;
  options.parallel.cpu_offload = flags.offload;
  options.transformer.float8 = run::float8_recipe(float8_from_name(flags.float8), "--float8",
                                                  options.model, options.parallel);
  options.parallel.frees_grads = device.is_cuda() && !flags.offload && flags.accumulation == 1;
  options.groups.groups = {
      {.name = "policy", .learning_rate = flags.learning_rate, .weight_decay = 0.01}};
  options.adamw.recipe = optim::recipe_from_name(flags.precision);
  stage.set_up(options);
  options.step.cuda_graphs = flags.cuda_graphs;
  run::check_cuda_graphs("--cuda-graphs", {options, world});
  run::MemoryRequest request = memory_request(flags, stage, world, options);
  run::fit_memory(request, memory_limit(flags, device), {.recompute = flags.recompute == "auto"});
  options.transformer.recompute = request.recompute;
  return options;
}

}  // namespace

StepBench::StepBench(const StepFlags& flags, comm::ProcessGroupSession& group, c10::Device device)
    : flags_(flags),
      stage_(flags.stage),
      group_(group),
      device_(device),
      options_(options_of(flags, shape_of(flags), device, group.world(), stage_)),
      model_(options_, parallel::groups_of(group, options_.parallel)) {
  choose_products(flags, options_.parallel);
  const auto start = Clock::now();
  // What a step takes does not depend on the weights.
  model_.runtime().fill_alike(stage_.fill(options_));
  log::info("bench", "{:.1f} million weights ready in {}",
            static_cast<double>(options_.model.total_parameters()) / 1e6,
            format_duration(seconds_since(start)));
  if (!flags.beside_uniform) return;
  // It leaves gradients, so the view that only reads is never asked for.
  uniform_ = std::make_unique<training::Baseline>(
      training::PolicyViews{model_.transformer(), model_.transformer()});
  uniform_step_ = std::make_unique<training::Step>(model_.runtime(), *uniform_, model_.optimizer(),
                                                   group.reduce_group(), training::StepOptions{});
}

Measured StepBench::run() {
  Measured measured;
  for (int i = 0; i < flags_.warm; ++i) {
    steps(i, measured);
    if (i == 0) group_.check_order();
  }
  measured = {};
  group_.reduce_group().barrier();
  if (device_.is_cuda()) cuda_tables().services.reset_peak_memory(device_.index());
  if (uniform_ || device_.is_cpu())
    for (int i = 0; i < flags_.steps; ++i) steps(i, measured);
  else
    run_ahead(measured);
  measured.span = squares_ / static_cast<double>(tokens_);
  measured.targets_per_token = static_cast<double>(targets_) / static_cast<double>(tokens_);
  return measured;
}

run::MemoryPlan StepBench::memory_plan() const {
  return run::plan_memory(memory_request(flags_, stage_, group_.world(), options_));
}

run::SpeedRequest StepBench::speed_request(const Measured& measured) const {
  run::SpeedRequest request;
  request.shape = memory_request(flags_, stage_, group_.world(), options_);
  request.shape.tokens = tokens_ / (static_cast<std::int64_t>(step_) * flags_.accumulation);
  request.micro_batches = flags_.accumulation;
  request.span = measured.span;
  request.targets_per_token = measured.targets_per_token;
  return request;
}

void StepBench::profile(const std::filesystem::path& trace) {
  Measured ignored;
  run::Profiler profiler(device_);
  {
    const ProfileScope scope(run::kStepScope, step_ + 1);
    steps(0, ignored);
  }
  const auto spans = profiler.finish(trace, storage::AtomicFile::kPublic);
  if (group_.rank() != 0) return;
  tracking::ProfileSummary summary = run::time_table(spans, {step_, step_});
  summary.world = group_.world();
  summary.device = device_.is_cuda() ? "cuda" : "cpu";
  run::tell_profile(summary);
}

void StepBench::run_ahead(Measured& measured) {
  std::optional<training::PendingResult> begun;
  std::vector<double> all_tokens;
  cuda_tables().services.synchronize();
  auto mark = Clock::now();
  const auto end = [&] {
    const training::StepResult result = begun->read();
    measured.losses.push_back(result.loss);
    measured.skipped += result.applied ? 0 : 1;
    measured.seconds.push_back(seconds_since(mark));
    mark = Clock::now();
  };
  for (int i = 0; i < flags_.steps; ++i, ++step_) {
    std::int64_t tokens = 0;
    training::PendingResult next = model_.step().run(next_input(stage_, tokens));
    all_tokens.push_back(static_cast<double>(tokens));
    if (begun) end();
    begun = std::move(next);
  }
  end();
  // A step's time has the updates of the one before, and so the first one's none, the last's two.
  cuda_tables().services.synchronize();
  measured.seconds.back() += seconds_since(mark);
  const double ends = (measured.seconds.front() + measured.seconds.back()) / 2;
  for (double* seconds : {&measured.seconds.front(), &measured.seconds.back()}) *seconds = ends;
  for (std::size_t i = 0; i < all_tokens.size(); ++i)
    measured.rates.push_back(all_tokens[i] / measured.seconds[i]);
}

void StepBench::steps(int pair, Measured& measured) {
  double uniform_s = 0;
  if (uniform_ && pair % 2 == 0) uniform_s = timed(*uniform_step_, uniform_stage_).seconds;
  const Timed step = timed(model_.step(), stage_);
  if (uniform_ && pair % 2 == 1) uniform_s = timed(*uniform_step_, uniform_stage_).seconds;
  measured.losses.push_back(step.loss);
  measured.skipped += step.applied ? 0 : 1;
  measured.seconds.push_back(step.seconds);
  measured.rates.push_back(static_cast<double>(step.tokens) / step.seconds);
  if (uniform_) measured.over_uniform.push_back(step.seconds / uniform_s);
  ++step_;
}

StepBench::Timed StepBench::timed(training::Step& step, const BenchStage& stage) {
  Timed timed;
  const auto start = Clock::now();
  const training::PendingResult pending = step.run(next_input(stage, timed.tokens));
  const training::StepResult result = pending.read();
  timed.loss = result.loss;
  timed.applied = result.applied;
  timed.seconds = seconds_since(start);
  return timed;
}

training::StepInput StepBench::next_input(const BenchStage& stage, std::int64_t& tokens) {
  const models::SyntheticShape shape{flags_.batch, flags_.seq, options_.model.vocab_size,
                                     flags_.rows == "mixed"};
  const int heads = static_cast<int>(options_.model.n_future), world = group_.world();
  training::StepInput input;
  training::StepFacts& facts = input.facts;
  facts.step = step_;
  facts.head_targets.assign(static_cast<std::size_t>(heads), 0);
  std::vector<std::int64_t> counts;
  for (int i = 0; i < flags_.accumulation * world; ++i) {
    const bool mine = i % world == group_.rank();
    // Full rows have equal counts on all ranks.
    if (mine || shape.mixed || counts.empty()) {
      const auto index = static_cast<std::uint64_t>((flags_.repeat_batch ? 0 : step_) * 1000 + i);
      const auto batch = models::synthetic_batch(shape, 1, index);
      counts = models::count_targets(batch.view(), heads);
      if (mine) {
        input.micro_batches.push_back(stage.upload(batch, {.num_heads = heads,
                                                           .inv_freq_F = model_.inv_freq(),
                                                           .shape = options_.step.batch_shape()}));
        tokens += static_cast<std::int64_t>(batch.tokens.size());
        note_span(batch);
        targets_ += std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
      }
      responses_ = std::count(batch.target_mask.begin(), batch.target_mask.end(), 1);
    }
    for (std::size_t k = 0; k < counts.size(); ++k) facts.head_targets[k] += counts[k];
    facts.scope_targets.insert(facts.scope_targets.end(), counts.begin(), counts.end());
    facts.num_sequences += flags_.batch;
    facts.num_response_tokens += responses_;
  }
  return input;
}

void StepBench::note_span(const models::SyntheticBatch& batch) {
  for (std::size_t d = 0; d + 1 < batch.doc_start.size(); ++d) {
    const double length = batch.doc_start[d + 1] - batch.doc_start[d];
    squares_ += length * length;
  }
  tokens_ += static_cast<std::int64_t>(batch.tokens.size());
}

}  // namespace wmtp::bench
