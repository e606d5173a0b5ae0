// The prediction against parallel::Runtime itself, whose collectives take place on a simulated
// link: whoever changes what the runtime starts or waits for, and when, sees a difference here.
#include <gtest/gtest.h>

#include "support/tolerance.h"
#include "wmtp/parallel/runtime.h"
#include "wmtp/run/plan/predict_step.h"

namespace wmtp::run {
namespace {

using parallel::Strategy;

class SimulatedCommunicator : public comm::Communicator {
 public:
  struct Place {
    int ranks = 1;
    std::size_t link = 0;
  };
  SimulatedCommunicator(StepTimeline& timeline, const StepModel& model, Place place)
      : Communicator({"simulated", 0, place.ranks, c10::Device(c10::DeviceType::CPU)}),
        timeline_(timeline),
        channel_(timeline.add_channel(place.link, model.backend.lanes)),
        scatter_passes_(model.backend.scatters ? 1 : 2) {}
  std::string_view backend() const override { return "simulated"; }
  void abort() noexcept override {}

 protected:
  comm::Work do_all_gather(const Tensor& out, const Tensor&) override { return ring(out, 1); }
  comm::Work do_reduce_scatter(const Tensor&, const Tensor& in) override {
    return ring(in, scatter_passes_);
  }
  comm::Work do_all_reduce(const Tensor& in_out) override { return ring(in_out, 2); }
  comm::Work do_broadcast(const Tensor&, int) override { return {}; }
  comm::Work do_gather(const Tensor&, const Tensor&, int) override { return {}; }
  void do_barrier() override {}

 private:
  struct Waiting : comm::Work::Body {
    Waiting(StepTimeline& on, StepTimeline::Ticket of) : timeline(on), ticket(of) {}
    void wait() override { timeline.wait(ticket); }
    bool done() override { return false; }
    StepTimeline& timeline;
    StepTimeline::Ticket ticket;
  };
  comm::Work ring(const Tensor& whole, double passes) {
    const double others = world() - 1;
    const Transfer transfer{passes * static_cast<double>(whole.nbytes()) * others / world(),
                            passes * others};
    return comm::Work(std::make_unique<Waiting>(timeline_, timeline_.start(channel_, transfer)));
  }

  StepTimeline& timeline_;
  std::size_t channel_;
  double scatter_passes_;
};

constexpr int kElements = 1024;  // of a block, times its number: no two are alike

Sharding sharding_of(Strategy strategy, int ranks) {
  switch (strategy) {
    case Strategy::full_shard:
      return Sharding::full_shard(ranks);
    case Strategy::shard_grad_op:
      return Sharding::shard_grad_op(ranks);
    case Strategy::no_shard:
      return Sharding::no_shard(ranks);
    case Strategy::hybrid_shard:
      return Sharding::hybrid_shard(ranks, 2);
  }
  return {};
}

StepModel six_units(Strategy strategy, int ranks, double compute_s) {
  StepModel model;
  for (int unit = 0; unit <= 6; ++unit)
    model.units.push_back({.gather_bytes = 4.0 * kElements * (1 + unit),
                           .reduce_bytes = 4.0 * kElements * (1 + unit),
                           .forward_s = compute_s,
                           .backward_s = compute_s * (2 + unit % 3),
                           .kept = unit == 0,
                           .head = unit >= 5});
  model.sharding = sharding_of(strategy, ranks);
  model.inside = {.bytes_per_s = 0x1p20, .latency_s = 0x1p-12, .start_s = 0x1p-10};
  model.update_s = compute_s;
  return model;
}

// The calls of a step, in the order of model::Transformer and training::Step.
void run_on_timeline(parallel::Runtime& runtime, StepTimeline& timeline, const StepModel& model) {
  const int num_units = static_cast<int>(model.units.size());
  const auto unit_of = [&](int unit) { return model.units[static_cast<std::size_t>(unit)]; };
  const auto backward = [&](int unit, double seconds) {
    runtime.acquire(UnitId(unit), true);
    runtime.open_grad(UnitId(unit));
    timeline.compute(seconds);
    runtime.close_grad(UnitId(unit));
    runtime.release(UnitId(unit));
  };
  runtime.begin_step();
  for (int micro = 1; micro <= model.micro_batches; ++micro) {
    runtime.begin_micro_batch(micro == model.micro_batches);
    runtime.acquire(UnitId(0), true);
    runtime.open_grad(UnitId(0));
    timeline.compute(unit_of(0).forward_s);
    for (int unit = 1; unit < num_units; ++unit) {
      if (unit_of(unit).head) continue;
      runtime.acquire(UnitId(unit), false);
      timeline.compute(unit_of(unit).forward_s);
      runtime.release(UnitId(unit));
    }
    for (int unit = 1; unit < num_units; ++unit)
      if (unit_of(unit).head) backward(unit, unit_of(unit).forward_s + unit_of(unit).backward_s);
    for (int unit = num_units - 1; unit > 0; --unit)
      if (!unit_of(unit).head) backward(unit, unit_of(unit).backward_s);
    timeline.compute(unit_of(0).backward_s);
    runtime.close_grad(UnitId(0));
    runtime.release(UnitId(0));
  }
  runtime.finish_grads();
  double whole = 0;
  for (const UnitModel& unit : model.units) whole += unit.reduce_bytes;
  runtime.begin_update();
  for (int unit = 0; unit < num_units; ++unit) {
    timeline.compute(model.update_s * unit_of(unit).reduce_bytes / whole);
    runtime.update_unit(UnitId(unit), [] {});
  }
}

// The first step records the order; the ones after it are those that are predicted.
double simulated_step(Strategy strategy, const StepModel& model) {
  StepTimeline timeline(model.across ? std::vector{model.inside, *model.across}
                                     : std::vector{model.inside});
  const Sharding& sharding = model.sharding;
  const auto group_of = [&](int ranks, std::size_t link = 0) {
    return std::make_unique<SimulatedCommunicator>(timeline, model,
                                                   SimulatedCommunicator::Place{ranks, link});
  };
  const auto gather = group_of(sharding.ranks), reduce = group_of(sharding.ranks);
  const auto group_gather = group_of(sharding.group), group_reduce = group_of(sharding.group);
  const auto replicate = group_of(sharding.replicas(), model.across ? 1 : 0);
  std::vector<layout::UnitSpec> units;
  for (int unit = 0; const UnitModel& each : model.units) {
    const std::string name = std::to_string(unit++);
    units.push_back({.name = name, .params = {{name, {kElements * unit}}}, .kept = each.kept});
  }
  parallel::ParallelOptions options;
  options.strategy = strategy;
  options.prefetch_forward = model.prefetch_forward;
  options.prefetch_backward = model.prefetch_backward;
  options.no_sync = model.no_sync;
  parallel::Groups groups{gather.get(), reduce.get()};
  if (strategy == Strategy::hybrid_shard) {
    options.shard_group_size = sharding.group;
    groups.hybrid = {group_gather.get(), group_reduce.get(), replicate.get()};
  }
  parallel::Runtime runtime(units, options, groups);
  for (int i = 0; i < 2; ++i) run_on_timeline(runtime, timeline, model);
  const double begin = timeline.now();
  run_on_timeline(runtime, timeline, model);
  return timeline.now() - begin;
}

void expect_predicted(Strategy strategy, const StepModel& model) {
  const double simulated = simulated_step(strategy, model);
  const double predicted = predict_step(model).step_s;
  EXPECT_WITHIN(std::abs(predicted / simulated - 1), 1e-13)
      << parallel::name_of(strategy) << ", ranks " << model.sharding.ranks << ", prefetch "
      << model.prefetch_forward << " and " << model.prefetch_backward << ", micro-batches "
      << model.micro_batches << ", no_sync " << model.no_sync << ": " << predicted << " for "
      << simulated;
}

constexpr Strategy kStrategies[] = {Strategy::full_shard, Strategy::shard_grad_op,
                                    Strategy::no_shard, Strategy::hybrid_shard};

TEST(PredictOrder, PredictsWhatTheRuntimeDoesAtEveryPrefetchDepth) {
  for (const Strategy strategy : kStrategies)
    for (const double compute_s : {0.0, 0x1p-10, 0x1p-6})
      for (const int forward : {0, 1, 2, 3})
        for (const int backward : {0, 1, 3}) {
          StepModel model = six_units(strategy, 4, compute_s);
          model.prefetch_forward = forward;
          model.prefetch_backward = backward;
          expect_predicted(strategy, model);
        }
}

TEST(PredictOrder, PredictsMicroBatchesWithAndWithoutReductionsBetweenThem) {
  for (const Strategy strategy : kStrategies)
    for (const double compute_s : {0x1p-10, 0x1p-7})
      for (const bool no_sync : {false, true}) {
        StepModel model = six_units(strategy, 4, compute_s);
        model.micro_batches = 3;
        model.no_sync = no_sync;
        expect_predicted(strategy, model);
      }
}

TEST(PredictOrder, PredictsGlooAndOneOrTwoRanks) {
  for (const Strategy strategy : kStrategies)
    for (const int ranks : {1, 2}) {
      if (strategy == Strategy::hybrid_shard && ranks == 1) continue;
      for (const double compute_s : {0x1p-10, 0x1p-7}) {
        StepModel model = six_units(strategy, ranks, compute_s);
        model.backend = BackendModel::gloo();
        expect_predicted(strategy, model);
      }
    }
}

// A long last unit: crossings that were not waited for in time would end behind it.
TEST(PredictOrder, PredictsCrossingsOnALinkOfTheirOwn) {
  for (const double across : {0x1p14, 0x1p18, 0x1p22})
    for (const int micro_batches : {1, 2})
      for (const double last_s : {0.0, 4.0}) {
        StepModel model = six_units(Strategy::hybrid_shard, 8, 0x1p-8);
        model.units.front().backward_s = last_s;
        model.across = LinkModel{.bytes_per_s = across, .latency_s = 0x1p-9};
        model.micro_batches = micro_batches;
        expect_predicted(Strategy::hybrid_shard, model);
      }
}

}  // namespace
}  // namespace wmtp::run
