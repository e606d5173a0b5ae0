#include "wmtp/parallel/pending_updates.h"

#include <utility>

#include "wmtp/core/error.h"
#include "wmtp/tensor/cuda_plugin.h"

namespace wmtp::parallel {
namespace {

constexpr std::size_t kAtOnce = 2;  // units

}  // namespace

PendingUpdates::PendingUpdates(const ParallelOptions& options, std::size_t num_units,
                               std::function<void(UnitId)> done)
    : side_(options.offloads() ? c10::Device(c10::kCPU) : options.device),
      units_(num_units),
      done_(std::move(done)) {}

void PendingUpdates::begin(const UpdateShare& share) {
  WMTP_CHECK(num_pending_ == 0, "updates of the step before are under way");
  share_ = share;
}

void PendingUpdates::run(UnitId id, const Update& update) {
  const bool beside = side_.beside() && num_pending_ >= kAtOnce;
  const int multiprocessors = beside ? share_.multiprocessors : 0;
  share_products(multiprocessors);
  side_.run([&] { update(multiprocessors); });
  if (!side_.beside()) return done_(id);
  Pending& unit = units_.at(static_cast<std::size_t>(id.value()));
  side_.set(unit.mark);
  if (std::exchange(unit.pending, true)) return;
  if (num_pending_++ == 0) num_run_ = 0;
  ++num_run_;
}

void PendingUpdates::share_products(int multiprocessors) {
  if (shares_ == (multiprocessors > 0)) return;
  shares_ = multiprocessors > 0;
  cuda_tables().services.leave_multiprocessors(multiprocessors);
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
  const double waited = static_cast<double>(num_run_ - num_pending_);
  if (waited > share_.of_units * static_cast<double>(num_run_)) wait_for_all();
}

void PendingUpdates::wait_for_all() {
  if (num_pending_ == 0) return;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) settle(unit);
  share_products(0);
}

}  // namespace wmtp::parallel
