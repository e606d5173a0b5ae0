#include "wmtp/parallel/gatherer.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "wmtp/core/error.h"

// Why in this order. A collective of c10d starts only after the work that is already enqueued on
// the current stream (on a CPU that work is done by then), and Work::wait() makes the current
// stream wait for the collective, not the host (on a CPU it blocks the host). Two things follow. A
// slot may be overwritten as soon as it is released, because the kernels that read it were enqueued
// before the all-gather that writes it. And acquire() starts the gathers of the next units before
// it waits for its own: they follow on the wire without a gap, and run while this unit computes.
//
// Who may block whom: a gather ends only when every rank has started it, so the order in which
// units are acquired is part of the protocol. It is recorded, not configured: the first pass of a
// kind gathers without prefetch and writes its order down, later passes are checked against it.
// Units marked `kept` stand outside of that order, as they are held across a whole pass. Within a
// step prefetch never looks beyond the end of a pass; between the micro-batches of a step what was
// gathered stays valid.
//
// Between two steps the first gathers follow the updates of their own units, in the optimizer's
// order, and run while it updates the other units. A gather may read a master where it lies (a
// thread of Gloo does, or another stream): so whoever changes masters ends all gathers first, which
// is what begin_update() and invalidate() wait for. Whether another pass comes in between
// (validation, a sample) does not matter: it finds the weights of the next step, and may take the
// slots of what it does not need itself, after the gather into them has ended.
//
// On a GPU updates run on a second stream (pending_updates.h), and the current stream waits for a
// unit's own where it is about to read the unit: in acquire(), which may hand out a master as it
// lies, and before a gather, which begins behind what the current stream has been given.
//
// With cpu_offload a unit comes from host memory on a stream of its own (and is gathered from
// there), behind what the current stream was given when it was asked for: so that of the next unit
// runs beside this one's products.

namespace wmtp::parallel {
Gatherer::Gatherer(const std::vector<UnitState>& states, const ParallelOptions& options,
                   PendingUpdates& updates, comm::Communicator* group)
    : states_(states),
      options_(options),
      pending_(updates),
      group_(group),
      copies_(options.offloads() ? options.device : c10::Device(c10::kCPU)),
      float8_(states, options, group) {
  std::int64_t slot_numel = 0;
  for (std::size_t u = 0; u < states_.size(); ++u) {
    if (aliases(u)) continue;
    const std::int64_t numel = buffer_numel(states_[u]);
    if (has_own_buffer(states_[u])) {
      const auto tensor_options =
          at::TensorOptions().dtype(states_[u].compute_dtype).device(options_.device);
      kept_[u].storage = at::empty({numel}, tensor_options);
    } else {
      slot_numel = std::max(slot_numel, numel);
    }
  }
  if (slot_numel == 0) return;
  const int num_slots = 1 + std::max({1, options_.prefetch_forward, options_.prefetch_backward});
  slots_.resize(static_cast<std::size_t>(num_slots));
  for (Buffer& slot : slots_)
    slot.storage = at::empty(
        {slot_numel}, at::TensorOptions().dtype(options_.param_dtype).device(options_.device));
}

// The weights are already whole and in the compute dtype on the device: nothing to gather.
bool Gatherer::aliases(std::size_t unit) const {
  if (float8_.has(unit)) return false;
  const UnitState& state = states_[unit];
  const bool whole_trained = !state.master.defined() || state.copy.defined() ||
                             (!is_sharded(state.plan.trained) &&
                              state.master.values().scalar_type() == state.compute_dtype &&
                              state.master.values().device() == options_.device);
  return whole_trained && !gathers_frozen(state);
}

// A whole copy of frozen weights that are stored in fewer bits would undo what that saves.
bool Gatherer::has_own_buffer(const UnitState& state) const {
  return state.plan.kept ||
         (options_.strategy == Strategy::shard_grad_op && !gathers_frozen(state));
}

void Gatherer::begin_pass(int kind) {
  auto [entry, fresh] = recorded_.try_emplace(kind);
  order_ = &entry->second;
  recording_ = fresh;
  position_ = 0;
  for (Buffer& slot : slots_) slot.awaited = false;  // perhaps by a pass of another kind
}

UnitWeights Gatherer::acquire(UnitId id, bool backward) {
  const auto unit = static_cast<std::size_t>(id.value());
  const UnitState& state = states_.at(unit);
  pending_.wait_for(id);
  const std::int64_t trained = state.plan.trained.numel(), frozen = state.plan.frozen.numel();
  auto front = [](const Tensor& flat, std::int64_t size) {
    return size > 0 ? flat.narrow(0, 0, size) : Tensor();
  };
  if (aliases(unit))
    return {front(state.copy.defined() ? state.copy : state.master.values(), trained),
            front(state.frozen, frozen)};

  Buffer& buffer = buffer_of(unit);
  if (buffer.holds != static_cast<int>(unit)) fetch(unit, buffer);
  buffer.in_use = true;
  buffer.awaited = false;
  if (!state.plan.kept && order_) {
    if (recording_) {
      order_->push_back(unit);
    } else {
      WMTP_CHECK(position_ < order_->size() && (*order_)[position_] == unit,
                 "a pass acquires its units in another order than the one before");
    }
    ++position_;
    prefetch(backward);
  }
  wait_for(buffer);
  if (float8_.has(unit)) return float8_.weights(unit, bytes_of(unit, buffer));
  const std::int64_t frozen_at = state.copy.defined() ? 0 : state.plan.trained.padded_numel();
  return {front(state.copy.defined() ? state.copy : buffer.storage, trained),
          gathers_frozen(state) ? buffer.storage.narrow(0, frozen_at, frozen)
                                : front(state.frozen, frozen)};
}

void Gatherer::release(UnitId id) {
  if (Buffer* buffer = holder_of(static_cast<std::size_t>(id.value()))) buffer->in_use = false;
}

void Gatherer::invalidate() {
  for (const Buffer& slot : slots_)
    WMTP_CHECK(!slot.in_use, "weights changed while a unit was in use");
  for (auto& [unit, buffer] : kept_) drop(buffer);
  for (Buffer& slot : slots_) drop(slot);
  early_.clear();
  float8_.masters_changed();
}

void Gatherer::wait_for(Buffer& buffer) {
  buffer.fetched.wait();
  buffer.trained_work.wait();
  buffer.frozen_work.wait();
}

void Gatherer::drop(Buffer& buffer) {
  wait_for(buffer);
  buffer.holds = -1;
  buffer.awaited = false;
}

// A kept unit is one of the first if it was used since it was fetched: a pass of another kind may
// have been the only one to need it.
void Gatherer::begin_update() {
  std::set<std::size_t> first;
  const auto order = recorded_.find(/*kind=*/0);
  const auto depth = static_cast<std::size_t>(options_.prefetch_forward);
  if (options_.gathers_early && order != recorded_.end() && depth > 0) {
    for (const auto& [unit, buffer] : kept_)
      if (states_[unit].plan.kept && buffer.holds >= 0 && !buffer.awaited) first.insert(unit);
    const auto begin = order->second.begin();
    first.insert(begin, begin + static_cast<std::ptrdiff_t>(std::min(depth, order->second.size())));
  }
  invalidate();
  updates_to_come_ = static_cast<std::size_t>(std::ranges::count_if(
      states_, [](const UnitState& state) { return state.master.defined(); }));
  for (const std::size_t unit : first) {
    if (states_[unit].master.defined())
      early_.insert(unit);
    else
      fetch_early(unit);  // frozen: it does not change
  }
}

void Gatherer::updated(UnitId id) {
  const auto unit = static_cast<std::size_t>(id.value());
  if (!float8_.has(unit) && early_.erase(unit)) fetch_early(unit);
  if (updates_to_come_ == 0 || --updates_to_come_ > 0) return;
  for (const std::size_t scaled : std::exchange(early_, {})) fetch_early(scaled);
}

void Gatherer::fetch_early(std::size_t unit) {
  Buffer& buffer = buffer_of(unit);
  fetch(unit, buffer);
  buffer.awaited = true;
}

std::int64_t Gatherer::buffer_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [unit, buffer] : kept_)
    bytes += static_cast<std::int64_t>(buffer.storage.nbytes());
  for (const Buffer& slot : slots_) bytes += static_cast<std::int64_t>(slot.storage.nbytes());
  return bytes + float8_.bytes();
}

Tensor Gatherer::bytes_of(std::size_t unit, const Buffer& buffer) const {
  return buffer.storage.view(at::kFloat8_e4m3fn)
      .narrow(0, 0, states_[unit].plan.trained.padded_numel());
}

Gatherer::Buffer* Gatherer::holder_of(std::size_t unit) {
  if (auto kept = kept_.find(unit); kept != kept_.end())
    return kept->second.holds == static_cast<int>(unit) ? &kept->second : nullptr;
  for (Buffer& slot : slots_)
    if (slot.holds == static_cast<int>(unit)) return &slot;
  return nullptr;
}

Gatherer::Buffer* Gatherer::free_slot() {
  for (Buffer& slot : slots_)
    if (slot.holds < 0) return &slot;
  for (Buffer& slot : slots_)
    if (!slot.in_use && !slot.awaited) return &slot;
  return nullptr;
}

Gatherer::Buffer& Gatherer::buffer_of(std::size_t unit) {
  if (auto kept = kept_.find(unit); kept != kept_.end()) return kept->second;
  Buffer* buffer = holder_of(unit);
  if (!buffer) buffer = free_slot();
  WMTP_CHECK(buffer, "more units are held at once than there are gather slots");
  return *buffer;
}

// The slot was last read by work already enqueued, and a collective starts after what is enqueued.
// Only a gather that nobody has waited for may still write to it.
void Gatherer::fetch(std::size_t unit, Buffer& buffer) {
  drop(buffer);
  buffer.holds = static_cast<int>(unit);
  if (float8_.has(unit))
    pending_.wait_for_all();  // the first of a step takes the scales of all units
  else
    pending_.wait_for(UnitId(static_cast<int>(unit)));
  copies_.run([&] { fill(unit, buffer); });
  copies_.set(buffer.fetched);
}

void Gatherer::prefetch(bool backward) {
  if (recording_) return;
  const int depth = backward ? options_.prefetch_backward : options_.prefetch_forward;
  for (std::size_t ahead = 0; ahead < static_cast<std::size_t>(depth); ++ahead) {
    if (position_ + ahead >= order_->size()) return;
    const std::size_t unit = (*order_)[position_ + ahead];
    if (Buffer* holder = holder_of(unit)) {
      if (!holder->in_use) holder->awaited = true;
      continue;
    }
    const auto kept = kept_.find(unit);
    Buffer* buffer = kept != kept_.end() ? &kept->second : free_slot();
    if (!buffer) return;
    fetch(unit, *buffer);
    buffer->awaited = true;
  }
}

}  // namespace wmtp::parallel
