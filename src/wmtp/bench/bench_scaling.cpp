// `wmtp bench scaling`: predicted steps, beside measured ones or of shapes and links that are not
// here.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <optional>

#include "wmtp/bench/bench.h"
#include "wmtp/bench/scaling_benchmark.h"
#include "wmtp/bench/scaling_curves.h"
#include "wmtp/bench/strategy_flags.h"
#include "wmtp/cli/rank_run.h"

namespace wmtp::bench {
namespace {

struct ScalingFlags {
  bool predict = false;
  CurveRequest curves;
  StrategyFlags strategy;
  ScalingCase scaling;
  std::optional<double> link_mb_s;  // of a link that was fitted elsewhere
  double hop_us = 0, start_us = 0, compute_us_per_mb = 0;
};

void report_case(const ScalingFlags& flags, int world, const LinkFit& fit,
                 const MeasuredCase& measured) {
  const run::StepPrediction step = predict_case(flags.scaling, world, measured.compute_s, fit.link);
  cli::emit_json("result",
                 {{"strategy", parallel::name_of(flags.scaling.parallel.strategy)},
                  {"world", world},
                  {"group", parallel::placement_of(flags.scaling.parallel, 0, world).shard_world},
                  {"units", flags.scaling.shape.units + 1},
                  {"elements_per_unit", flags.scaling.shape.width * flags.scaling.shape.width},
                  {"rows", flags.scaling.shape.rows},
                  {"fitted", world > 1 && !flags.link_mb_s},
                  {"link_mb_s", fit.link.bytes_per_s * 1e-6},
                  {"hop_us", fit.link.latency_s * 1e6},
                  {"start_us", fit.link.start_s * 1e6},
                  {"compute_us_per_mb", fit.link.compute_s_per_byte * 1e12},
                  {"cpu_us_per_mb", fit.cpu_s_per_byte * 1e12},
                  {"compute_ms", measured.compute_s * 1e3},
                  {"comm_ms", step.comm_s * 1e3},
                  {"gather_wait_ms", step.gather_wait_s * 1e3},
                  {"reduce_wait_ms", step.reduce_wait_s * 1e3},
                  {"cross_wait_ms", step.cross_wait_s * 1e3},
                  {"predicted_ms", step.step_s * 1e3},
                  {"measured_ms", measured.step_s * 1e3},
                  {"error", step.step_s / measured.step_s - 1}});
}

int bench_scaling(const cli::Session& session, ScalingFlags flags) {
  if (flags.predict) {
    std::cout << scaling_curves(flags.curves);
    return 0;
  }
  cli::RankRun run;
  run.launch = cli::discover_launch();
  run.options.device = cli::choose_device(run.launch, {"cpu", false});
  run.options.backend = "auto";
  run.options.dead_after = std::chrono::seconds(60);  // beats wait behind bytes on slow links
  cli::set_threads(run.launch, 1);
  return cli::run_as_rank(session, std::move(run), [&](comm::ProcessGroupSession& group) {
    group.connect();
    set_strategy(flags.strategy, group.world(), flags.scaling.parallel);
    LinkFit fit;
    if (flags.link_mb_s)
      fit.link = {*flags.link_mb_s * 1e6, flags.hop_us * 1e-6, flags.start_us * 1e-6,
                  flags.compute_us_per_mb * 1e-12};
    else if (group.world() > 1)
      fit = fit_link(group, 4 * flags.scaling.shape.width * flags.scaling.shape.width);
    const MeasuredCase measured = measure_case(group, flags.scaling);
    if (group.rank() == 0) report_case(flags, group.world(), fit, measured);
    return 0;
  });
}

void add_case_options(CLI::App& command, ScalingFlags& flags) {
  ScalingCase& scaling = flags.scaling;
  add_strategy_flags(command, flags.strategy);
  command.add_option("--units", scaling.shape.units, "Units beside the root")
      ->check(CLI::Range(1, 1024));
  command.add_option("--width", scaling.shape.width, "A unit has width x width weights")
      ->check(CLI::Range(64, 16384));
  command.add_option("--rows", scaling.shape.rows, "Rows that each unit is computed for")
      ->check(CLI::PositiveNumber);
  command.add_option("--rounds", scaling.rounds, "Rounds; the median counts")
      ->check(CLI::PositiveNumber);
  command.add_option("--steps", scaling.steps, "Timed steps of a round")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--link-mb-s", flags.link_mb_s,
                  "What a rank can send; absent: fitted to collectives of this run")
      ->check(CLI::PositiveNumber);
  command.add_option("--hop-us", flags.hop_us, "With --link-mb-s: latency of a hop");
  command.add_option("--start-us", flags.start_us, "With --link-mb-s: start of a collective");
  command.add_option("--compute-us-per-mb", flags.compute_us_per_mb,
                     "With --link-mb-s: compute that a megabyte costs beside it");
}

}  // namespace

void add_bench_scaling(CLI::App& bench, cli::Session& session) {
  CLI::App* command = bench.add_subcommand(
      "scaling", "Predicted steps beside measured ones (one JSON line), or alone");
  command->footer(
      "  wmtp launch --nproc 2 -- bench scaling --strategy SHARD_GRAD_OP\n"
      "  wmtp launch --nproc 4 -- bench scaling --link-mb-s 900 --hop-us 40 --start-us 100\n"
      "  wmtp bench scaling --predict --shape 70B --micro-batches 8");
  const auto flags = std::make_shared<ScalingFlags>();
  flags->scaling.shape = {.units = 4, .width = 768, .rows = 256};
  add_case_options(*command, *flags);
  command->add_flag("--predict", flags->predict, "Tables of known shapes and links; runs nothing");
  command->add_option("--shape", flags->curves.shapes, "With --predict: 0.6B, 6.7B, 70B")
      ->check(CLI::IsMember(scaling_shapes()));
  command->add_option("--micro-batches", flags->curves.micro_batches, "With --predict: of a step")
      ->check(CLI::Range(1, 1024));
  command->callback([&session, flags] {
    session.run = [&session, flags] { return bench_scaling(session, *flags); };
  });
}

}  // namespace wmtp::bench
