#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "wmtp/bench/bench.h"
#include "wmtp/bench/kernel_benchmarks.h"
#include "wmtp/cli/rank_run.h"
#include "wmtp/core/error.h"
#include "wmtp/core/time.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::bench {
namespace {

struct KernelFlags {
  std::string device = "auto", dtype, only;
  int threads = 0, rounds = 7;
};

// Preset small's step on a CPU, llama-mtp-7b's on a GPU (grouped heads, so that they are measured
// too).
KernelShape shape_for(c10::Device device) {
  if (device.is_cpu())
    return {.tokens = 1024,
            .hidden = 512,
            .ffn = 1536,
            .vocabulary = 32000,
            .document = 256,
            .num_heads = 8,
            .num_kv_heads = 8,
            .head_dim = 64,
            .parameters = 60'000'000};
  return {.tokens = 16384,
          .hidden = 4096,
          .ffn = 11008,
          .vocabulary = 32000,
          .document = 2048,
          .num_heads = 32,
          .num_kv_heads = 8,
          .head_dim = 128,
          .parameters = 200'000'000};
}

void wait_for(c10::Device device) {
  if (device.is_cuda()) cuda_tables().services.synchronize();
}

double seconds_of(const std::function<void()>& call, int repeats, c10::Device device) {
  wait_for(device);
  const auto start = Clock::now();
  for (int i = 0; i < repeats; ++i) call();
  wait_for(device);
  return seconds_since(start) / repeats;
}

// The median over rounds; each round is long enough (20 ms) for the clock and for launches to
// overlap.
double median_seconds(const std::function<void()>& call, int rounds, c10::Device device) {
  seconds_of(call, 2, device);
  const int repeats = std::clamp(static_cast<int>(0.02 / seconds_of(call, 1, device)), 1, 1000);
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) seconds.push_back(seconds_of(call, repeats, device));
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

void report_kernels(const cli::Session& session, const KernelBenchmark& op, double ours,
                    double aten, std::string_view dtype) {
  const double rate = op.work / ours;
  if (session.json) {
    nlohmann::ordered_json fields{
        {"op", op.name}, {"shape", op.shape}, {"dtype", dtype}, {"ms", ours * 1e3}};
    fields[op.is_flops ? "tflop_s" : "gb_s"] = op.is_flops ? rate / 1e12 : rate / 1e9;
    if (aten > 0) fields["aten_ms"] = aten * 1e3, fields["speedup"] = aten / ours;
    return cli::emit_json("kernel", fields);
  }
  const std::string speed = op.is_flops ? fmt::format("{:8.2f} TFLOP/s", rate / 1e12)
                                        : fmt::format("{:8.0f} GB/s   ", rate / 1e9);
  const std::string peer =
      aten > 0 ? fmt::format("{:9.3f} ms {:6.2f}x", aten * 1e3, aten / ours) : "";
  std::cout << fmt::format("{:34} {:22} {:9.3f} ms {} {}\n", op.name, op.shape, ours * 1e3, speed,
                           peer)
            << std::flush;
}

int bench_kernels(const cli::Session& session, const KernelFlags& flags) {
  const comm::LaunchEnv launch = cli::discover_launch();
  const c10::Device device = cli::choose_device(launch, {flags.device, false});
  cli::set_threads(launch, flags.threads);
  const std::string dtype = !flags.dtype.empty() ? flags.dtype : device.is_cuda() ? "bf16" : "fp32";
  if (device.is_cpu() && dtype != "fp32")
    throw Error(ErrorKind::config, "bench", fmt::format("--dtype {} on a CPU", dtype),
                "CPU kernels compute in fp32");
  if (!session.json)
    std::cout << fmt::format("{:34} {:22} {:>12} {:>16} {:>12} {:>7}\n", "op (" + dtype + ")",
                             "shape", "wmtp", "rate", "ATen", "gain");
  for (const MakeBenchmark& make :
       kernel_benchmarks(shape_for(device), dtype_from_name(dtype), device)) {
    const KernelBenchmark op = make();
    if (op.name.find(flags.only) == std::string::npos) continue;
    const double ours = median_seconds(op.ours, flags.rounds, device);
    const double aten = op.aten ? median_seconds(op.aten, flags.rounds, device) : 0;
    report_kernels(session, op, ours, aten, dtype);
  }
  return 0;
}

}  // namespace

void add_bench_kernels(CLI::App& bench, cli::Session& session) {
  CLI::App* command =
      bench.add_subcommand("kernels", "Every kernel beside ATen's operators, in one run");
  command->footer(
      "  wmtp bench kernels --device cpu\n  wmtp --json bench kernels --device cuda --dtype bf16");
  const auto flags = std::make_shared<KernelFlags>();
  command->add_option("--device", flags->device, "auto, cuda or cpu");
  command
      ->add_option("--dtype", flags->dtype,
                   "bf16, fp16 or fp32; default bf16 on a GPU, fp32 on a CPU")
      ->check(CLI::IsMember({"bf16", "fp16", "fp32"}));
  command->add_option("--only", flags->only, "Only ops whose name holds this")->type_name("TEXT");
  command->add_option("--rounds", flags->rounds, "Timed rounds; the median counts")
      ->check(CLI::Range(1, 1000));
  command->add_option("--threads", flags->threads, "CPU threads (0: all)")
      ->check(CLI::NonNegativeNumber);
  command->callback([&session, flags] {
    session.run = [&session, flags] { return bench_kernels(session, *flags); };
  });
}

}  // namespace wmtp::bench
