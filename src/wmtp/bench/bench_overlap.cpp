// `wmtp bench overlap`: how much of a step's communication hides behind its computation. The parts
// of a step alone and steps of several prefetch depths take turns in one run, so that whatever else
// the machine does falls on all of them.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "wmtp/bench/bench.h"
#include "wmtp/bench/overlap_benchmark.h"
#include "wmtp/bench/strategy_flags.h"
#include "wmtp/cli/rank_run.h"
#include "wmtp/core/time.h"

namespace wmtp::bench {
namespace {

struct OverlapFlags {
  StrategyFlags strategy;
  OverlapShape shape;
  std::vector<int> prefetch{0, 1, 2};
  int rounds = 5, steps = 2;
};

// Milliseconds, one figure a round; per step where it is about steps.
struct Series {
  std::vector<double> ms, waited_gather_ms, waited_reduce_ms;
};

class OverlapRounds {
 public:
  OverlapRounds(const OverlapFlags& flags, comm::ProcessGroupSession& group)
      : flags_(flags), group_(group) {
    for (const int depth : flags_.prefetch) {
      parallel::ParallelOptions options;
      set_strategy(flags_.strategy, group_.world(), options);
      options.prefetch_forward = options.prefetch_backward = depth;
      groups_ = parallel::groups_of(group_, options);
      models_.push_back(std::make_unique<OverlapModel>(flags_.shape, options, groups_));
      for (int i = 0; i < 2; ++i) models_.back()->step({});  // orders are learnt, pages touched
    }
    steps_.resize(models_.size());
    comm_.resize(models_.size());
  }

  void run_round() {
    OverlapModel& unhidden = *models_.front();
    time_steps(compute_, unhidden, {.computes = true, .gathers = false, .reduces = false});
    time_steps(gathers_, unhidden, {.computes = false, .gathers = true, .reduces = false});
    for (std::size_t m = 0; m < models_.size(); ++m) {
      time_steps(comm_[m], *models_[m], {.computes = false, .gathers = true, .reduces = true});
      time_steps(steps_[m], *models_[m], {});
    }
    for (int i = 0; i < flags_.steps; ++i) {
      unhidden.runtime().forget_gathered();
      unhidden.prepare_root_gradient();
      group_.gather_group().barrier("first gather");
      time(first_gather_, 1, [&] { unhidden.gather_root(); });
      group_.gather_group().barrier("last reduction");
      time(last_reduction_, 1, [&] { unhidden.reduce_root(); });
    }
  }

  void report() const {
    const auto list = [&](const std::vector<Series>& all, auto part) {
      nlohmann::ordered_json values = nlohmann::ordered_json::array();
      for (const Series& series : all) values.push_back(median(part(series)));
      return values;
    };
    const auto ms = [](const Series& series) { return series.ms; };
    cli::emit_json("result",
                   {{"strategy", flags_.strategy.name},
                    {"world", group_.world()},
                    {"shard_world", models_.front()->runtime().placement().shard_world},
                    {"units", flags_.shape.units + 1},
                    {"elements_per_unit", flags_.shape.width * flags_.shape.width},
                    {"rows", flags_.shape.rows},
                    {"rounds", flags_.rounds},
                    {"compute_ms", median(compute_.ms)},
                    {"gathers_ms", median(gathers_.ms)},
                    {"first_gather_ms", median(first_gather_.ms)},
                    {"last_reduction_ms", median(last_reduction_.ms)},
                    {"prefetch", flags_.prefetch},
                    {"comm_ms", list(comm_, ms)},
                    {"step_ms", list(steps_, ms)},
                    {"waited_gather_ms",
                     list(steps_, [](const Series& series) { return series.waited_gather_ms; })},
                    {"waited_reduce_ms",
                     list(steps_, [](const Series& series) { return series.waited_reduce_ms; })}});
  }

 private:
  // A step before them brings the runtime into the state in which a run goes on: the first gathers
  // of the first timed step started behind its update, those of the step after the last one are
  // left under way. Nothing but the step's own collectives holds ranks together in between.
  void time_steps(Series& series, OverlapModel& model, const StepParts& parts) {
    group_.reduce_group().barrier("round");
    model.step(parts);
    time(series, flags_.steps, [&] {
      for (int i = 0; i < flags_.steps; ++i) model.step(parts);
    });
    model.runtime().forget_gathered();
  }

  // The slowest rank's time counts: that is how long a step takes.
  void time(Series& series, int num_steps, const std::function<void()>& work) {
    take_figures();
    const auto started = Clock::now();
    work();
    const double own_ms = seconds_since(started) * 1e3 / num_steps;
    const comm::CollectiveFigures figures = take_figures();
    const double gathers_s = figures.of(comm::CollectiveKind::all_gather).waited_s;
    series.waited_gather_ms.push_back(gathers_s * 1e3 / num_steps);
    series.waited_reduce_ms.push_back((figures.waited_s() - gathers_s) * 1e3 / num_steps);
    double slowest = 0;
    for (const std::string& ms : group_.reduce_group().gather_bytes(fmt::format("{}", own_ms)))
      slowest = std::max(slowest, std::stod(ms));
    series.ms.push_back(slowest);
  }

  // Of all communicators since the last call.
  comm::CollectiveFigures take_figures() const {
    comm::CollectiveFigures figures;
    for (comm::Communicator* group : groups_.all()) figures.add(group->meter().take());
    return figures;
  }

  OverlapFlags flags_;
  comm::ProcessGroupSession& group_;
  parallel::Groups groups_;
  std::vector<std::unique_ptr<OverlapModel>> models_;  // by prefetch depth
  Series compute_, gathers_, first_gather_, last_reduction_;
  std::vector<Series> comm_, steps_;  // by prefetch depth
};

int bench_overlap(const cli::Session& session, const OverlapFlags& flags) {
  parallel::strategy_from_name(flags.strategy.name);  // refused before ranks meet
  cli::RankRun run;
  run.launch = cli::discover_launch();
  run.options.device = cli::choose_device(run.launch, {"cpu", false});
  run.options.backend = "auto";
  cli::set_threads(run.launch, 1);
  return cli::run_as_rank(session, std::move(run), [&](comm::ProcessGroupSession& group) {
    group.connect();
    OverlapRounds rounds(flags, group);
    group.check_order();
    for (int i = 0; i < flags.rounds; ++i) rounds.run_round();
    if (group.rank() == 0) rounds.report();
    return 0;
  });
}

}  // namespace

void add_bench_overlap(CLI::App& bench, cli::Session& session) {
  CLI::App* command = bench.add_subcommand(
      "overlap", "How much communication hides behind computation on the CPU; one JSON line");
  command->footer(
      "  wmtp launch --nproc 2 -- bench overlap --strategy FULL_SHARD\n"
      "  wmtp launch --nproc 2 -- bench overlap --strategy SHARD_GRAD_OP --prefetch 0 4");
  const auto flags = std::make_shared<OverlapFlags>();
  add_strategy_flags(*command, flags->strategy);
  command->add_option("--units", flags->shape.units, "Units beside the root")
      ->check(CLI::Range(1, 1024));
  command->add_option("--width", flags->shape.width, "A unit has width x width weights")
      ->check(CLI::Range(1, 16384));
  command->add_option("--rows", flags->shape.rows, "Rows that each unit is computed for")
      ->check(CLI::PositiveNumber);
  command->add_option("--prefetch", flags->prefetch, "Units gathered ahead; several take turns")
      ->check(CLI::Range(0, 8));
  command->add_option("--rounds", flags->rounds, "Rounds of all measurements; medians count")
      ->check(CLI::PositiveNumber);
  command->add_option("--steps", flags->steps, "Timed steps of each measurement in a round")
      ->check(CLI::PositiveNumber);
  command->callback([&session, flags] {
    session.run = [&session, flags] { return bench_overlap(session, *flags); };
  });
}

}  // namespace wmtp::bench
