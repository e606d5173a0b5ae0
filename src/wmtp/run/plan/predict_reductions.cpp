#include "wmtp/run/plan/predict_reductions.h"

namespace wmtp::run {

PredictedReductions::PredictedReductions(const StepModel& model, StepTimeline& timeline)
    : model_(model),
      timeline_(timeline),
      reduce_channel_(timeline.add_channel(/*link=*/0, model.backend.lanes)),
      replicate_channel_(timeline.add_channel(model.across ? 1 : 0, model.backend.lanes)),
      own_(model.units.size()),
      in_turn_(model.units.size()) {}

bool PredictedReductions::has_own_slot(std::size_t unit) const {
  return !sharded() || model_.units[unit].kept || model_.no_sync;
}

PredictedReductions::Slot& PredictedReductions::slot_of(std::size_t unit) {
  return has_own_slot(unit) ? own_[unit] : slots_[in_turn_[unit]];
}

void PredictedReductions::open(std::size_t unit) {
  if (!sharded() || !trained(unit)) return;
  if (!has_own_slot(unit)) {
    in_turn_[unit] = turn_;
    turn_ = (turn_ + 1) % slots_.size();
  }
  finish_reduction(slot_of(unit));
}

void PredictedReductions::close(std::size_t unit) {
  if (!trained(unit) || (!sharded() && !replicated())) return;
  if ((!sharded() || model_.no_sync) && !last_) return;
  Slot& slot = slot_of(unit);
  slot.unit = static_cast<int>(unit);
  slot.last = last_;
  const double bytes = model_.units[unit].reduce_bytes, group = model_.sharding.group;
  const double passes = model_.backend.scatters ? 1 : 2;
  slot.ticket = sharded() ? start(reduce_channel_,
                                  {passes * bytes * (group - 1) / group, passes * (group - 1)})
                          : all_reduce(bytes);
  if (!sharded() || !replicated()) return;
  if (closed_last_) finish_reduction(*closed_last_);
  closed_last_ = &slot;
}

StepTimeline::Ticket PredictedReductions::start(std::size_t channel, const Transfer& transfer) {
  comm_s_ += timeline_.alone(channel, transfer);
  return timeline_.start(channel, transfer);
}

StepTimeline::Ticket PredictedReductions::all_reduce(double bytes) {
  const double replicas = model_.sharding.replicas();
  const double on_link = model_.across ? bytes : bytes * model_.crossings_on_link;
  return start(replicate_channel_, {2 * on_link * (replicas - 1) / replicas, 2 * (replicas - 1)});
}

void PredictedReductions::finish_reduction(Slot& slot) {
  if (slot.unit < 0) return;
  waited_s_ += timeline_.wait(slot.ticket);
  if (sharded() && replicated() && slot.last) cross(static_cast<std::size_t>(slot.unit));
  slot.unit = -1;
}

void PredictedReductions::cross(std::size_t unit) {
  Crossing& crossing = crossings_[crossing_turn_];
  crossing_turn_ = (crossing_turn_ + 1) % crossings_.size();
  finish_crossing(crossing);
  crossing = all_reduce(model_.units[unit].reduce_bytes / model_.sharding.group);
}

void PredictedReductions::finish_crossing(Crossing& crossing) {
  if (crossing) cross_waited_s_ += timeline_.wait(*crossing);
  crossing.reset();
}

void PredictedReductions::finish() {
  closed_last_ = nullptr;
  for (Slot& slot : slots_) finish_reduction(slot);
  for (Slot& slot : own_) finish_reduction(slot);
  for (Crossing& crossing : crossings_) finish_crossing(crossing);
}

}  // namespace wmtp::run
