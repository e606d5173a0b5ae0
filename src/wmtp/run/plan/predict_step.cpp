#include "wmtp/run/plan/predict_step.h"

#include <algorithm>
#include <array>

#include "wmtp/core/error.h"
#include "wmtp/run/plan/predict_gathers.h"
#include "wmtp/run/plan/predict_reductions.h"

namespace wmtp::run {
namespace {

class SimulatedRank {
 public:
  explicit SimulatedRank(const StepModel& model)
      : model_(model),
        timeline_(model.across ? std::vector{model.inside, *model.across}
                               : std::vector{model.inside}),
        gathers_(model, timeline_),
        reductions_(model, timeline_) {}

  StepPrediction run_step();

 private:
  void run_micro_batch(bool last);
  void run_unit(std::size_t unit, bool backward);
  void update();
  void compute(double seconds);

  const StepModel& model_;
  StepTimeline timeline_;
  PredictedGathers gathers_;
  PredictedReductions reductions_;
  StepPrediction step_;
};

void SimulatedRank::compute(double seconds) {
  step_.compute_s += seconds;
  step_.slowed_s += timeline_.compute(seconds);
}

// A head's work is all in its backward: that is the pass it is acquired for.
void SimulatedRank::run_unit(std::size_t unit, bool backward) {
  const UnitModel& work = model_.units[unit];
  gathers_.acquire(unit, backward);
  if (backward) reductions_.open(unit);
  compute((backward ? work.backward_s : 0) + (!backward || work.head ? work.forward_s : 0));
  if (backward) reductions_.close(unit);
  gathers_.release(unit);
}

// The order of model::Transformer.
void SimulatedRank::run_micro_batch(bool last) {
  const std::size_t num_units = model_.units.size();
  gathers_.begin_pass();
  reductions_.begin_micro_batch(last);
  std::size_t first = 0;
  for (; first < num_units && model_.units[first].kept; ++first) {
    gathers_.acquire(first, /*backward=*/true);
    reductions_.open(first);
    compute(model_.units[first].forward_s);
  }
  for (std::size_t u = first; u < num_units; ++u)
    if (!model_.units[u].head) run_unit(u, /*backward=*/false);
  compute(model_.loss_s);
  for (std::size_t u = first; u < num_units; ++u)
    if (model_.units[u].head) run_unit(u, /*backward=*/true);
  for (std::size_t u = num_units; u-- > first;)
    if (!model_.units[u].head) run_unit(u, /*backward=*/true);
  for (std::size_t u = first; u-- > 0;) {
    compute(model_.units[u].backward_s);
    reductions_.close(u);
    gathers_.release(u);
  }
}

void SimulatedRank::update() {
  double whole = 0;
  for (const UnitModel& unit : model_.units) whole += unit.reduce_bytes;
  gathers_.begin_update();
  for (std::size_t u = 0; u < model_.units.size(); ++u) {
    if (whole > 0) compute(model_.update_s * model_.units[u].reduce_bytes / whole);
    gathers_.updated(u);
  }
}

StepPrediction SimulatedRank::run_step() {
  const double begin = timeline_.now();
  step_ = {};
  gathers_.forget_costs();
  reductions_.forget_costs();
  for (int i = 0; i < model_.micro_batches; ++i) run_micro_batch(i + 1 == model_.micro_batches);
  reductions_.finish();
  update();
  step_.step_s = timeline_.now() - begin;
  step_.gather_wait_s = gathers_.waited_s();
  step_.reduce_wait_s = reductions_.waited_s();
  step_.cross_wait_s = reductions_.cross_waited_s();
  step_.comm_s = gathers_.comm_s() + reductions_.comm_s();
  return step_;
}

}  // namespace

StepPrediction predict_step(const StepModel& model) {
  WMTP_CHECK(model.sharding.group > 0 && model.sharding.ranks % model.sharding.group == 0,
             "groups of equal size hold the units");
  SimulatedRank rank(model);
  rank.run_step();  // what a step leaves behind for the next one
  return rank.run_step();
}

}  // namespace wmtp::run
