#include "wmtp/parallel/reducer.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "wmtp/core/error.h"
#include "wmtp/tensor/cuda_plugin.h"
#include "wmtp/tensor/storage_memory.h"

// Why in this order. close() starts the reduction after the kernels that wrote the gradient, which
// are already enqueued on the current stream, and returns; nobody waits for it before the slot is
// needed again. open() is where that happens: it settles the reduction that was started two units
// ago, and only then hands the slot out, because the reduced shard is a slice of the slot itself.
// So one unit's gradient is on the wire while the next unit computes into the other slot. On CUDA
// settling orders the stream, on a CPU it blocks the host.
//
// A unit that is open for a whole pass (`kept`: the root is opened by the trunk's forward and
// closed last) would occupy one of the two slots all that time, so it has a buffer of its own; with
// no_sync every unit has one. Reductions run on a communicator of their own: on the gatherer's they
// would queue behind the gathers of the backward pass, whose weights the next unit waits for.
//
// With HYBRID_SHARD a shard that is summed within the group is summed over the groups next, once a
// step: when the unit after it is closed its own reduction has had that unit's time, and the
// crossing has the time of the one that follows. It starts from the gradient that is kept, all
// micro-batches in it, and is settled when the crossing after the next needs its place.
//
// The order of closing is that of the model's backward pass, the same on all ranks, and the order
// in which the parts of micro-batches are added follows from the calls alone, not from timing.
//
// With cpu_offload the first part of a unit leaves for pinned host memory on a stream of its own:
// close() hands it over, that stream waits for the reduction, and the copy runs beside the next
// units' backward. open() lets the slot be written again when it has left, and finish()
// synchronizes once. (Where Gloo reduces tensors of a GPU, which only tests do, it is the host that
// waits in close().) The parts of later micro-batches are added on the host, which waits for all
// that is under way. A shard that crosses goes to the host at its end, on the current stream.

namespace wmtp::parallel {

Reducer::Reducer(std::vector<UnitState>& states, const ParallelOptions& options,
                 const comm::ShardGroups& groups)
    : states_(states),
      options_(options),
      groups_(groups),
      copies_(options.offloads() ? options.device : c10::Device(c10::kCPU)),
      reduced_(states.size()),
      opened_(states.size()),
      told_(states.size()) {
  if (alone() && adds_in_place()) return;
  const auto tensor_options =
      at::TensorOptions().dtype(options_.reduce_dtype).device(options_.device);
  std::int64_t slot_numel = 0;
  for (std::size_t u = 0; u < states_.size(); ++u) {
    if (!states_[u].grad.defined()) continue;
    const std::int64_t numel = states_[u].plan.trained.padded_numel();
    if (adds_in_place()) {
      own_[u];  // reduced where it lies
    } else if (states_[u].plan.full_precision) {
      own_[u].whole = at::empty({numel}, tensor_options.dtype(states_[u].grad.scalar_type()));
    } else if (states_[u].plan.kept || options_.no_sync) {
      own_[u].whole = at::empty({numel}, tensor_options);
    } else {
      slot_numel = std::max(slot_numel, numel);
    }
  }
  if (slot_numel == 0) return;
  slots_.resize(2);
  for (Slot& slot : slots_) slot.whole = at::empty({slot_numel}, tensor_options);
}

void Reducer::begin_step() {
  std::fill(reduced_.begin(), reduced_.end(), false);
  std::fill(opened_.begin(), opened_.end(), false);
  std::fill(told_.begin(), told_.end(), false);
  // A step takes the same slots each time, as a replay does. What is under way in them is of a
  // recording that failed.
  turn_ = crossing_turn_ = 0;
  closed_last_ = nullptr;
  for (Slot& slot : slots_) slot.unit = -1;
  for (auto& [unit, slot] : own_) slot.unit = -1;
  for (Crossing& crossing : crossings_) crossing.unit = -1;
}

Reducer::Slot& Reducer::slot_of(std::size_t unit) {
  if (auto own = own_.find(unit); own != own_.end()) return own->second;
  return slots_.at(open_.at(unit));
}

// Padding is 0 from the start, also where a model adds to the gradient that is kept.
Tensor& Reducer::grad_in_memory(std::size_t unit) {
  UnitState& state = states_[unit];
  if (options_.frees_grads && provide_memory(state.grad) && adds_in_place()) {
    const std::int64_t numel = state.plan.trained.numel();
    state.grad.narrow(0, numel, state.grad.numel() - numel).zero_();
  }
  return state.grad;
}

OpenGrad Reducer::open(UnitId id) {
  const auto unit = static_cast<std::size_t>(id.value());
  UnitState& state = states_.at(unit);
  if (!state.grad.defined()) return {};
  const std::int64_t numel = state.plan.trained.numel();
  const bool first = !opened_[unit];
  opened_[unit] = true;
  if (adds_in_place()) return {grad_in_memory(unit).narrow(0, 0, numel), first};
  if (!own_.contains(unit)) {
    open_[unit] = turn_;
    turn_ = (turn_ + 1) % slots_.size();
  }
  Slot& slot = slot_of(unit);
  finish_reduction(slot);
  slot.copied.wait();
  const std::int64_t padding = state.plan.trained.padded_numel() - numel;
  if (padding > 0) slot.whole.narrow(0, numel, padding).zero_();
  return {slot.whole.narrow(0, 0, numel), first || !options_.no_sync};
}

void Reducer::close(UnitId id) {
  const auto unit = static_cast<std::size_t>(id.value());
  if (!states_.at(unit).grad.defined()) return;
  if (alone() && adds_in_place()) {
    if (last_) complete(unit);
    return;
  }
  const bool accumulates_here = adds_in_place() || options_.no_sync;
  if (accumulates_here && !last_) return;
  Slot& slot = slot_of(unit);
  reduce(unit, slot);
  if (options_.offloads() && !reduced_[unit] && !(crosses() && last_)) send_home(unit, slot);
  if (!crosses()) return;
  if (closed_last_) finish_reduction(*closed_last_);
  closed_last_ = &slot;
}

DType Reducer::wire_dtype(const UnitState& state) const {
  return state.plan.full_precision ? state.grad.scalar_type() : options_.reduce_dtype;
}

void Reducer::reduce(std::size_t unit, Slot& slot) {
  const UnitState& state = states_[unit];
  slot.unit = static_cast<int>(unit);
  slot.last = last_;
  const std::int64_t size = state.plan.trained.shard_numel();
  if (unsharded()) {
    slot.reduced = adds_in_place() ? state.grad.to(wire_dtype(state))  // itself where it fits
                                   : slot.whole.narrow(0, 0, size);
    if (groups_.replicate) slot.work = groups_.replicate->all_reduce(slot.reduced, state.plan.name);
    return;
  }
  slot.reduced = slot.whole.narrow(0, groups_.reduce->rank() * size, size);
  slot.work = groups_.reduce->reduce_scatter(
      slot.reduced, slot.whole.narrow(0, 0, state.plan.trained.padded_numel()), state.plan.name);
}

// Ends the slot's reduction, if one is under way, and brings its result home.
void Reducer::finish_reduction(Slot& slot) {
  if (slot.unit < 0) return;
  const auto unit = static_cast<std::size_t>(slot.unit);
  slot.work.wait();
  if (crosses() && slot.last)
    cross(unit, slot.reduced);
  else
    bring_home(unit, slot.reduced);
  if (!crosses() && slot.last) complete(unit);
  slot.unit = -1;
  slot.reduced = Tensor();
}

// The slot's reduction ends on the stream of copies; open() waits for the copy.
void Reducer::send_home(std::size_t unit, Slot& slot) {
  copies_.run([&] {
    slot.work.wait();
    grad_in_memory(unit).copy_(slot.reduced, /*non_blocking=*/true);
  });
  copies_.set(slot.copied);
  reduced_[unit] = true;
  slot.unit = -1;
  slot.reduced = Tensor();
}

void Reducer::bring_home(std::size_t unit, const Tensor& reduced) {
  Tensor& grad = grad_in_memory(unit);
  if (reduced_[unit]) {
    if (options_.offloads()) cuda_tables().services.synchronize();  // for the part before
    grad.add_(reduced.to(grad.device()));
  } else if (reduced.data_ptr() != grad.data_ptr()) {
    grad.copy_(reduced);
  }
  reduced_[unit] = true;
}

void Reducer::cross(std::size_t unit, const Tensor& reduced) {
  UnitState& state = states_[unit];
  Crossing& crossing = crossings_[crossing_turn_];
  crossing_turn_ = (crossing_turn_ + 1) % crossings_.size();
  finish_crossing(crossing);
  if (options_.offloads()) {
    crossing.shard = reduced.clone();
    if (reduced_[unit]) {
      cuda_tables().services.synchronize();  // for the parts before
      crossing.shard.add_(state.grad.to(options_.device));
    }
  } else {
    bring_home(unit, reduced);
    crossing.shard = state.grad.to(wire_dtype(state));  // itself where it fits
  }
  crossing.unit = static_cast<int>(unit);
  crossing.work = groups_.replicate->all_reduce(crossing.shard, state.plan.name);
}

void Reducer::finish_crossing(Crossing& crossing) {
  if (crossing.unit < 0) return;
  Tensor& grad = states_[static_cast<std::size_t>(crossing.unit)].grad;
  crossing.work.wait();
  if (crossing.shard.data_ptr() != grad.data_ptr())
    grad.copy_(crossing.shard, /*non_blocking=*/options_.offloads());
  complete(static_cast<std::size_t>(crossing.unit));
  crossing.unit = -1;
  crossing.shard = Tensor();
}

// What is on its way to the host is complete when finish() has waited for it.
void Reducer::complete(std::size_t unit) {
  if (!complete_ || options_.offloads()) return;
  WMTP_CHECK(!told_[unit], "a gradient was closed again after it was complete");
  told_[unit] = true;
  complete_(UnitId(static_cast<int>(unit)));
}

void Reducer::finish() {
  closed_last_ = nullptr;
  for (Slot& slot : slots_) finish_reduction(slot);
  for (auto& [unit, slot] : own_) finish_reduction(slot);
  for (Crossing& crossing : crossings_) finish_crossing(crossing);
  for (std::size_t unit = 0; unit < states_.size(); ++unit)
    if (states_[unit].grad.defined() && !opened_[unit]) grad_in_memory(unit).zero_();
  if (options_.offloads()) cuda_tables().services.synchronize();
  for (std::size_t unit = 0; complete_ && unit < states_.size(); ++unit)
    if (opened_[unit] && !told_[unit]) complete_(UnitId(static_cast<int>(unit)));
}

void Reducer::updated(UnitId id) {
  if (options_.frees_grads) release_memory(states_.at(static_cast<std::size_t>(id.value())).grad);
}

std::int64_t Reducer::buffer_bytes() const {
  std::int64_t bytes = 0;
  for (const Slot& slot : slots_) bytes += static_cast<std::int64_t>(slot.whole.nbytes());
  for (const auto& [unit, slot] : own_)
    if (slot.whole.defined()) bytes += static_cast<std::int64_t>(slot.whole.nbytes());
  return bytes;
}

}  // namespace wmtp::parallel
