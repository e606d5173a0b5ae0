#include "wmtp/bench/bench.h"
#include "wmtp/bench/strategy_flags.h"
#include "wmtp/cli/rank_run.h"
#include "wmtp/comm/self_test.h"

namespace wmtp::bench {
namespace {

struct CommFlags {
  std::string device = "auto", backend = "auto";
  std::int64_t max_mib = 256;
  int group_size = 0;
  bool shared_gpu = false;
};

int bench_comm(const cli::Session& session, const CommFlags& flags) {
  cli::RankRun run;
  run.launch = cli::discover_launch();
  run.allow_shared_gpu = flags.shared_gpu;
  run.options.device = cli::choose_device(run.launch, {flags.device, flags.shared_gpu});
  run.options.backend = flags.backend;
  cli::set_threads(run.launch, 0);
  return cli::run_as_rank(session, std::move(run), [&](comm::ProcessGroupSession& group) {
    group.connect();
    const comm::SelfTestResult result = comm::run_collective_self_test(
        group, flags.max_mib << 20,
        flags.group_size > 0 ? checked_group_size(flags.group_size, group.world()) : 0);
    if (group.rank() != 0) return 0;
    for (const comm::CollectiveTiming& timing : result.timings)
      cli::emit_json("result", {{"collective", timing.collective},
                                {"over", timing.over},
                                {"dtype", timing.dtype},
                                {"backend", result.backend},
                                {"world", result.world},
                                {"bytes", timing.bytes},
                                {"ms", timing.best_ms},
                                {"gb_per_s", timing.gb_per_s}});
    return 0;
  });
}

}  // namespace

void add_bench_comm(CLI::App& bench, cli::Session& session) {
  CLI::App* command =
      bench.add_subcommand("comm", "Collectives of all ranks by size; one JSON line each");
  command->footer(
      "  wmtp launch --nproc 4 -- bench comm --max-mib 64\n"
      "  wmtp launch --nproc 2 -- bench comm --device cpu --backend gloo");
  const auto flags = std::make_shared<CommFlags>();
  command->add_option("--max-mib", flags->max_mib, "Largest tensor")->check(CLI::Range(1, 65536));
  command
      ->add_option("--group-size", flags->group_size,
                   "Also within groups of so many ranks and between them, as HYBRID_SHARD does")
      ->check(CLI::Range(1, 65536));
  command->add_option("--device", flags->device, "auto, cuda or cpu");
  command->add_option("--backend", flags->backend, "auto, gloo or nccl")
      ->check(CLI::IsMember({"auto", "gloo", "nccl"}));
  command->add_flag("--allow-shared-gpu", flags->shared_gpu,
                    "Several ranks on one GPU (with gloo)");
  command->callback([&session, flags] {
    session.run = [&session, flags] { return bench_comm(session, *flags); };
  });
}

}  // namespace wmtp::bench
