#include "wmtp/run/plan/predict_gathers.h"

#include <algorithm>

#include "wmtp/core/error.h"

namespace wmtp::run {
namespace {

std::vector<std::size_t> acquisitions_of(const std::vector<UnitModel>& units) {
  std::vector<std::size_t> trunk, order;
  for (std::size_t u = 0; u < units.size(); ++u)
    if (!units[u].kept && !units[u].head) trunk.push_back(u);
  order = trunk;
  for (std::size_t u = 0; u < units.size(); ++u)
    if (units[u].head) order.push_back(u);
  order.insert(order.end(), trunk.rbegin(), trunk.rend());
  return order;
}

}  // namespace

PredictedGathers::PredictedGathers(const StepModel& model, StepTimeline& timeline)
    : model_(model),
      timeline_(timeline),
      channel_(timeline.add_channel(/*link=*/0, model.backend.lanes)),
      order_(acquisitions_of(model.units)),
      slots_(static_cast<std::size_t>(
          1 + std::max({1, model.prefetch_forward, model.prefetch_backward}))),
      own_(model.units.size()) {}

bool PredictedGathers::has_own_buffer(std::size_t unit) const {
  return model_.units[unit].kept || model_.sharding.gathers_once;
}

PredictedGathers::Buffer* PredictedGathers::holder_of(std::size_t unit) {
  const auto holds = static_cast<int>(unit);
  if (has_own_buffer(unit)) return own_[unit].holds == holds ? &own_[unit] : nullptr;
  const auto slot = std::ranges::find(slots_, holds, &Buffer::holds);
  return slot == slots_.end() ? nullptr : &*slot;
}

PredictedGathers::Buffer* PredictedGathers::free_buffer(std::size_t unit) {
  if (has_own_buffer(unit)) return &own_[unit];
  auto slot = std::ranges::find(slots_, -1, &Buffer::holds);
  if (slot == slots_.end())
    slot = std::ranges::find_if(slots_, [](const Buffer& b) { return !b.in_use && !b.awaited; });
  return slot == slots_.end() ? nullptr : &*slot;
}

void PredictedGathers::fetch(std::size_t unit, Buffer& buffer) {
  settle(buffer);
  buffer.holds = static_cast<int>(unit);
  const double group = model_.sharding.group;
  const Transfer transfer{model_.units[unit].gather_bytes * (group - 1) / group, group - 1};
  buffer.ticket = timeline_.start(channel_, transfer);
  buffer.under_way = true;
  comm_s_ += timeline_.alone(channel_, transfer);
}

void PredictedGathers::settle(Buffer& buffer) {
  if (buffer.under_way) waited_s_ += timeline_.wait(buffer.ticket);
  buffer.under_way = false;
}

void PredictedGathers::begin_pass() {
  position_ = 0;
  for (Buffer& slot : slots_) slot.awaited = false;
}

void PredictedGathers::acquire(std::size_t unit, bool backward) {
  if (!shards()) return;
  Buffer* buffer = holder_of(unit);
  if (!buffer) {
    buffer = free_buffer(unit);
    WMTP_CHECK(buffer, "a predicted step holds more units than there are slots");
    fetch(unit, *buffer);
  }
  buffer->in_use = true;
  buffer->awaited = false;
  if (!model_.units[unit].kept) {
    WMTP_CHECK(order_.at(position_) == unit, "a predicted pass leaves its order");
    ++position_;
    prefetch(backward);
  }
  settle(*buffer);
}

void PredictedGathers::release(std::size_t unit) {
  if (!shards()) return;
  if (Buffer* buffer = holder_of(unit)) buffer->in_use = false;
}

void PredictedGathers::prefetch(bool backward) {
  const int depth = backward ? model_.prefetch_backward : model_.prefetch_forward;
  const std::size_t end = std::min(order_.size(), position_ + static_cast<std::size_t>(depth));
  for (std::size_t next = position_; next < end; ++next) {
    if (Buffer* holder = holder_of(order_[next])) {
      if (!holder->in_use) holder->awaited = true;
      continue;
    }
    Buffer* buffer = free_buffer(order_[next]);
    if (!buffer) return;
    fetch(order_[next], *buffer);
    buffer->awaited = true;
  }
}

void PredictedGathers::begin_update() {
  for (auto* buffers : {&slots_, &own_})
    for (Buffer& buffer : *buffers) {
      settle(buffer);
      buffer = {};
    }
}

// The kept units, and as many more as are prefetched in forward.
void PredictedGathers::updated(std::size_t unit) {
  if (!shards() || !model_.gathers_behind_update || model_.prefetch_forward == 0) return;
  const auto ahead = std::min(order_.size(), static_cast<std::size_t>(model_.prefetch_forward));
  const bool first = model_.units[unit].kept ||
                     std::find(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(ahead),
                               unit) != order_.begin() + static_cast<std::ptrdiff_t>(ahead);
  if (!first) return;
  Buffer* buffer = free_buffer(unit);
  WMTP_CHECK(buffer, "no slot is left for a gather behind the update");
  fetch(unit, *buffer);
  buffer->awaited = true;
}

}  // namespace wmtp::run
