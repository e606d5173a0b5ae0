#include "wmtp/comm/collective_meter.h"

#include <utility>

namespace wmtp::comm {

std::string_view name_of(CollectiveKind kind) {
  static constexpr std::array<std::string_view, kNumCollectiveKinds> names{
      "all_gather", "reduce_scatter", "all_reduce", "broadcast", "other"};
  return names.at(static_cast<std::size_t>(kind));
}

double CollectiveFigures::waited_s() const {
  double sum = 0;
  for (const CollectiveSums& kind : kinds) sum += kind.waited_s;
  return sum;
}

double CollectiveFigures::starting_s() const {
  double sum = 0;
  for (const CollectiveSums& kind : kinds) sum += kind.starting_s;
  return sum;
}

void CollectiveFigures::add(const CollectiveFigures& other) {
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    kinds[k].calls += other.kinds[k].calls;
    kinds[k].bytes += other.kinds[k].bytes;
    kinds[k].starting_s += other.kinds[k].starting_s;
    kinds[k].waited_s += other.kinds[k].waited_s;
    kinds[k].duration_s += other.kinds[k].duration_s;
  }
  open.insert(open.end(), other.open.begin(), other.open.end());
}

// From the back, as what is newest is reached last: one question tells that nothing has changed.
bool CollectiveFigures::settle() {
  while (!open.empty()) {
    const CollectiveTimes& times = open.back();
    const auto waited = times.wait_begun.until(times.wait_ended);
    const auto lasted = times.started.until(times.ended);
    if (!waited || !lasted) return false;
    CollectiveSums& sums = kinds[static_cast<std::size_t>(times.kind)];
    sums.waited_s += *waited;
    sums.duration_s += *lasted;
    open.pop_back();
  }
  return true;
}

void CollectiveMeter::time_streams(bool on) {
  const std::lock_guard lock(mutex_);
  timed_ = on;
}

CollectiveFigures CollectiveMeter::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(figures_, {});
}

Moment CollectiveMeter::now() const {
  if (device_.is_cuda()) {
    const std::lock_guard lock(mutex_);
    if (!timed_) return {};
  }
  return Moment::now(device_);
}

void CollectiveMeter::count(CollectiveKind kind, std::int64_t bytes, double starting_s) {
  const std::lock_guard lock(mutex_);
  CollectiveSums& sums = figures_.kinds[static_cast<std::size_t>(kind)];
  ++sums.calls;
  sums.bytes += bytes;
  if (device_.is_cpu()) sums.starting_s += starting_s;
}

void CollectiveMeter::add(CollectiveTimes times) {
  if (!times.wait_begun || !times.wait_ended) return;
  if (!times.started) times.started = times.wait_begun;  // before times were asked for
  if (!times.ended) times.ended = times.wait_ended;
  const std::lock_guard lock(mutex_);
  figures_.open.push_back(std::move(times));
  if (!device_.is_cuda()) figures_.settle();
}

}  // namespace wmtp::comm
