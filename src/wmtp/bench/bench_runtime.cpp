// `wmtp bench runtime`: what the sharding runtime itself costs. A step's calls with nothing to
// compute and units of a few elements: bookkeeping, and with several ranks the start, the latency
// and the wait of every collective.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>

#include "wmtp/bench/bench.h"
#include "wmtp/bench/strategy_flags.h"
#include "wmtp/cli/rank_run.h"
#include "wmtp/core/time.h"
#include "wmtp/parallel/runtime.h"

namespace wmtp::bench {
namespace {

struct RuntimeFlags {
  StrategyFlags strategy;
  std::string device = "cpu", backend = "auto";
  int units = 32, elements = 64, steps = 200, warm = 10;
};

std::vector<layout::UnitSpec> tiny_units(const RuntimeFlags& flags) {
  auto unit = [&](const std::string& name) {
    return layout::UnitSpec{.name = name, .params = {{name + ".weight", {flags.elements}}}};
  };
  std::vector<layout::UnitSpec> units{unit("root")};
  units.front().kept = true;
  for (int i = 0; i < flags.units; ++i) units.push_back(unit(fmt::format("layers.{}", i)));
  return units;
}

// Milliseconds of one step, by call. CPU time leaves waiting out: of the calling thread, which is
// the runtime's own work, and of all threads, those of the collectives among them.
struct StepCost {
  double acquire = 0, release = 0, open = 0, close = 0, finish = 0;
  double own_cpu = 0, all_cpu = 0;
  double total() const { return acquire + release + open + close + finish; }
};

double cpu_ms(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

class Timed {
 public:
  explicit Timed(double& sum) : sum_(sum), start_(Clock::now()) {}
  ~Timed() { sum_ += seconds_since(start_) * 1e3; }

 private:
  double& sum_;
  Clock::time_point start_;
};

// The calls of a step with one micro-batch, in the order of a model's.
StepCost run_step(parallel::Runtime& runtime, int num_units) {
  StepCost cost;
  auto acquire = [&](int unit, bool backward) {
    const Timed timed(cost.acquire);
    runtime.acquire(UnitId(unit), backward);
  };
  auto release = [&](int unit) {
    const Timed timed(cost.release);
    runtime.release(UnitId(unit));
  };
  const double own_before = cpu_ms(CLOCK_THREAD_CPUTIME_ID);
  const double all_before = cpu_ms(CLOCK_PROCESS_CPUTIME_ID);
  runtime.begin_step();
  runtime.begin_micro_batch(/*last=*/true);
  acquire(0, false);
  for (int unit = 1; unit <= num_units; ++unit) acquire(unit, false), release(unit);
  for (int unit = num_units; unit >= 0; --unit) {
    if (unit > 0) acquire(unit, true);
    {
      const Timed timed(cost.open);
      runtime.open_grad(UnitId(unit));
    }
    {
      const Timed timed(cost.close);
      runtime.close_grad(UnitId(unit));
    }
    release(unit);
  }
  {
    const Timed timed(cost.finish);
    runtime.finish_grads();
  }
  runtime.forget_gathered();
  cost.own_cpu = cpu_ms(CLOCK_THREAD_CPUTIME_ID) - own_before;
  cost.all_cpu = cpu_ms(CLOCK_PROCESS_CPUTIME_ID) - all_before;
  return cost;
}

void report_runtime(const RuntimeFlags& flags, const parallel::Runtime& runtime,
                    const std::vector<StepCost>& steps) {
  auto per_unit = [&](auto part) {
    std::vector<double> values;
    for (const StepCost& step : steps) values.push_back(part(step) / (flags.units + 1));
    return median(std::move(values));
  };
  cli::emit_json("result", {{"strategy", parallel::name_of(runtime.options().strategy)},
                            {"world", runtime.placement().world},
                            {"shard_world", runtime.placement().shard_world},
                            {"units", flags.units + 1},
                            {"elements_per_unit", flags.elements},
                            {"steps", flags.steps},
                            {"ms_per_unit_and_step", per_unit([](auto& s) { return s.total(); })},
                            {"own_cpu_ms", per_unit([](auto& s) { return s.own_cpu; })},
                            {"all_cpu_ms", per_unit([](auto& s) { return s.all_cpu; })},
                            {"acquire_ms", per_unit([](auto& s) { return s.acquire; })},
                            {"release_ms", per_unit([](auto& s) { return s.release; })},
                            {"open_ms", per_unit([](auto& s) { return s.open; })},
                            {"close_ms", per_unit([](auto& s) { return s.close; })},
                            {"finish_ms", per_unit([](auto& s) { return s.finish; })}});
}

int bench_runtime(const cli::Session& session, const RuntimeFlags& flags) {
  cli::RankRun run;
  run.launch = cli::discover_launch();
  run.options.device = cli::choose_device(run.launch, {flags.device, false});
  run.options.backend = flags.backend;
  cli::set_threads(run.launch, 1);
  const c10::Device device = run.options.device;
  return cli::run_as_rank(session, std::move(run), [&](comm::ProcessGroupSession& group) {
    group.connect();
    parallel::ParallelOptions options;
    set_strategy(flags.strategy, group.world(), options);
    options.device = device;
    parallel::Runtime runtime(tiny_units(flags), options, parallel::groups_of(group, options));
    for (int i = 0; i < flags.warm; ++i) run_step(runtime, flags.units);
    group.check_order();
    std::vector<StepCost> steps;
    for (int i = 0; i < flags.steps; ++i) steps.push_back(run_step(runtime, flags.units));
    if (group.rank() == 0) report_runtime(flags, runtime, steps);
    return 0;
  });
}

}  // namespace

void add_bench_runtime(CLI::App& bench, cli::Session& session) {
  CLI::App* command = bench.add_subcommand(
      "runtime", "The sharding runtime alone: host time per unit and step; one JSON line");
  command->footer(
      "  wmtp bench runtime\n"
      "  wmtp launch --nproc 2 -- bench runtime --strategy FULL_SHARD");
  const auto flags = std::make_shared<RuntimeFlags>();
  add_strategy_flags(*command, flags->strategy);
  command->add_option("--units", flags->units, "Units beside the root")->check(CLI::Range(1, 1024));
  command->add_option("--elements", flags->elements, "Elements of a unit")
      ->check(CLI::PositiveNumber);
  command->add_option("--steps", flags->steps, "Timed steps; the median counts")
      ->check(CLI::PositiveNumber);
  command->add_option("--warm", flags->warm, "Steps before them")->check(CLI::PositiveNumber);
  command->add_option("--device", flags->device, "auto, cuda or cpu");
  command->add_option("--backend", flags->backend, "auto, gloo or nccl")
      ->check(CLI::IsMember({"auto", "gloo", "nccl"}));
  command->callback([&session, flags] {
    session.run = [&session, flags] { return bench_runtime(session, *flags); };
  });
}

}  // namespace wmtp::bench
