#include "wmtp/parallel/pending_updates.h"

#include <utility>

namespace wmtp::parallel {

PendingUpdates::PendingUpdates(const ParallelOptions& options, std::size_t num_units,
                               std::function<void(UnitId)> done)
    : side_(options.offloads() ? c10::Device(c10::kCPU) : options.device),
      units_(num_units),
      done_(std::move(done)) {}

void PendingUpdates::run(UnitId id, const std::function<void()>& update) {
  side_.run(update);
  if (!side_.beside()) return done_(id);
  Pending& unit = units_.at(static_cast<std::size_t>(id.value()));
  side_.set(unit.mark);
  if (std::exchange(unit.pending, true)) return;
  if (num_pending_++ == 0) num_run_ = 0;
  ++num_run_;
}

void PendingUpdates::settle(std::size_t index) {
  Pending& unit = units_[index];
  if (!std::exchange(unit.pending, false)) return;
  unit.mark.wait();
  --num_pending_;
  done_(UnitId(static_cast<int>(index)));
}

void PendingUpdates::wait_for(UnitId id) {
  if (num_pending_ == 0) return;
  settle(static_cast<std::size_t>(id.value()));
  if (2 * num_pending_ < num_run_) wait_for_all();
}

void PendingUpdates::wait_for_all() {
  if (num_pending_ == 0) return;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) settle(unit);
}

}  // namespace wmtp::parallel
