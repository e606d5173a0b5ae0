#include <fmt/format.h>

#include <algorithm>

#include "wmtp/bench/bench.h"
#include "wmtp/bench/step_benchmark.h"
#include "wmtp/cli/logging/kineto_log.h"
#include "wmtp/cli/rank_run.h"
#include "wmtp/core/error.h"
#include "wmtp/run/plan/speed/calibrate.h"
#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/tensor/host_memory.h"

namespace wmtp::bench {
namespace {

constexpr const char* kLevels[] = {"none", "light", "block"};  // of recomputation

double gib(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024 * 1024);
}

nlohmann::ordered_json report_of(const StepFlags& flags, StepBench& bench, const Measured& measured,
                                 c10::Device device, int world, std::int64_t base_bytes) {
  const double rate = median(measured.rates);
  nlohmann::ordered_json fields{
      {"peer", "wmtp"},
      {"preset", flags.preset},
      {"stage", flags.stage.name},
      {"signals", flags.stage.signals},
      {"strategy", parallel::name_of(bench.model().runtime().options().strategy)},
      {"world", world},
      {"batch", flags.batch},
      {"seq", flags.seq},
      {"rows", flags.rows},
      {"recompute", kLevels[static_cast<int>(bench.options().transformer.recompute)]},
      {"dtype", name_of(bench.model().runtime().options().param_dtype)},
      {"precision", flags.precision},
      {"quantize", flags.quantize},
      {"cpu_offload", flags.offload},
      {"params", bench.options().model.total_parameters()},
      {"step_s", median(measured.seconds)},
      {"min_s", *std::ranges::min_element(measured.seconds)},
      {"tok_s_rank", rate},
      {"tflops", bench.stage().flops_per_token(bench.options(), measured.span) * rate / 1e12}};
  if (!measured.over_uniform.empty()) fields["over_uniform"] = median(measured.over_uniform);
  if (const auto& lora = bench.options().transformer.lora) {
    fields["lora_rank"] = lora->rank;
    fields["lora_targets"] = lora->targets;
    fields["trained_params"] = model::lora_parameters(bench.options().model, *lora);
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
  const run::MemoryPlan plan = bench.memory_plan();
  fields["plan_gib"] = gib(plan.total_bytes());
  fields["plan_peak"] = plan.peak;
  fields["loss"] = measured.losses.back();
  fields["first_loss"] = measured.losses.front();
  fields["skipped_steps"] = measured.skipped;
  if (const auto* graphs = bench.model().step().graphs())
    fields["graph_hits"] = graphs->hits().rate();
  if (const auto* scale = bench.model().loss_scale()) fields["loss_scale"] = scale->state().scale;
  return fields;
}

// What this machine is said to do; the other ranks wait, as they will when `wmtp plan` measures.
run::DeviceModel device_of(comm::ProcessGroupSession& group, int threads, c10::Device device) {
  run::DeviceModel model = run::device_model("cpu");
  if (device.is_cuda()) {
    const std::string name = cuda_tables().services.device_info(device.index()).name;
    const run::DeviceModel* known = run::find_device(name);
    if (!known)
      throw Error(ErrorKind::config, "bench", fmt::format("--expect: no table of {}", name),
                  "measure without --expect");
    model = *known;
  } else if (group.rank() == 0) {
    model = run::calibrate_cpu(threads, run::kCalibrationS, group.world());
  }
  group.reduce_group().barrier();
  return model;
}

void add_expected(const StepBench& bench, const Measured& measured, const run::DeviceModel& device,
                  nlohmann::ordered_json& fields) {
  const run::ExpectedSpeed speed = run::expected_speed(bench.speed_request(measured), device);
  fields["expected_tok_s_rank"] = speed.tokens_per_s_rank;
  fields["expected_from"] = speed.basis;
  for (const run::ExpectedSpeed::Part& part : speed.parts)
    fields["expected_s"][part.what] = part.seconds;
}

// trace.json; of several ranks trace_rank_0.json and so on.
std::filesystem::path trace_of_rank(const std::filesystem::path& file, int rank, int world) {
  if (world == 1) return file;
  return file.parent_path() /
         fmt::format("{}_rank_{}{}", file.stem().string(), rank, file.extension().string());
}

int bench_step(const cli::Session& session, const StepFlags& flags) {
  if (flags.beside_uniform && flags.stage.name == "critic")
    throw Error(ErrorKind::config, "bench", "--beside-uniform: a critic has no uniform step");
  keep_freed_host_memory();
  cli::RankRun run;
  run.launch = cli::discover_launch();
  run.allow_shared_gpu = flags.shared_gpu;
  run.options.device = cli::choose_device(run.launch, {flags.device, flags.shared_gpu});
  run.options.backend = flags.backend;
  if (!flags.profile.empty()) cli::quiet_kineto(run.options.device);
  const int threads = cli::set_threads(run.launch, flags.threads);
  const c10::Device device = run.options.device;
  return cli::run_as_rank(session, std::move(run), [&](comm::ProcessGroupSession& group) {
    group.connect();
    std::optional<run::DeviceModel> expecting;
    if (flags.expect) expecting = device_of(group, threads, device);
    const std::int64_t base_bytes = peak_resident_bytes();
    StepBench bench(flags, group, device);
    const Measured measured = bench.run();
    auto fields = report_of(flags, bench, measured, device, group.world(), base_bytes);
    if (expecting) add_expected(bench, measured, *expecting, fields);
    if (group.rank() == 0) cli::emit_json("result", fields);
    if (!flags.profile.empty())
      bench.profile(trace_of_rank(flags.profile, group.rank(), group.world()));
    return 0;
  });
}

}  // namespace

void add_bench_step(CLI::App& bench, cli::Session& session) {
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
  add_strategy_flags(*command, flags->strategy);
  command
      ->add_option("--recompute", flags->recompute,
                   "Activations to recompute; auto: the least that fits --memory-gib")
      ->check(CLI::IsMember({"none", "light", "block", "auto"}));
  command
      ->add_option("--rows", flags->rows,
                   "full: every token a target; mixed: lengths seq/8..seq, half prompt")
      ->check(CLI::IsMember({"full", "mixed"}));
  command->add_option("--stage", flags->stage.name, "What is trained")
      ->check(CLI::IsMember({"baseline", "critic", "verifiable", "rho1"}));
  command
      ->add_option("--signals", flags->stage.signals,
                   "Where token weights come from: given with the batch, a frozen model of the "
                   "same shape, or (verifiable) a value head on the trunk")
      ->check(CLI::IsMember({"given", "model", "joint"}));
  command->add_flag("--train-backbone", flags->stage.train_backbone,
                    "A critic's trunk learns too; default: its value head alone");
  command->add_flag("--beside-uniform", flags->beside_uniform,
                    "A baseline step beside each step; over_uniform is the median ratio");
  command->add_option("--heads", flags->heads, "Prediction heads (0: the preset's)")
      ->check(CLI::Range(0, 16));
  command
      ->add_option("--lora", flags->lora_rank,
                   "Train adapters of this rank instead of all weights (0: all weights)")
      ->check(CLI::Range(0, 1024))
      ->type_name("RANK");
  command
      ->add_option("--lora-targets", flags->lora_targets,
                   "Projections with adapters; default: q_proj,k_proj,v_proj,o_proj")
      ->needs("--lora")
      ->delimiter(',')
      ->type_name("NAMES");
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
      ->add_option(
          "--precision", flags->precision,
          "How the optimizer keeps masters and moments: fp32, split, bf16_moments, bf16_sr or int8")
      ->check(CLI::IsMember({"fp32", "split", "bf16_moments", "bf16_sr", "int8"}));
  command
      ->add_option("--quantize", flags->quantize,
                   "How frozen matrices are kept, under --lora and of --signals model")
      ->check(CLI::IsMember({"none", "nf4"}));
  command
      ->add_option("--float8", flags->float8,
                   "Products of blocks on 8-bit operands: off, tensorwise or rowwise, on GPUs of "
                   "compute capability 9.0 or newer")
      ->check(CLI::IsMember({"off", "tensorwise", "rowwise"}));
  command
      ->add_option("--gemm-choice", flags->gemm_choice,
                   "measured: on a GPU the algorithm of each product is timed in the warm-up")
      ->check(CLI::IsMember({"library", "measured"}));
  command->add_flag("--cuda-graphs", flags->cuda_graphs,
                    "Replay the steps as CUDA graphs: the first is run, the second recorded");
  command->add_flag("--expect", flags->expect,
                    "Also the tokens/s that `wmtp plan` expects, after 2 s of calibration");
  command
      ->add_option("--profile", flags->profile,
                   "Record one step after the timed ones: a Chrome trace, and a table of what took "
                   "the time")
      ->type_name("FILE");
  command->add_flag("--cpu-offload", flags->offload, "Shards and optimizer in host memory");
  command->callback([&session, flags] {
    session.run = [&session, flags] { return bench_step(session, *flags); };
  });
}

}  // namespace wmtp::bench
