#include "wmtp/run/report/comm_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace wmtp::run {

CommFigures::CommFigures(std::vector<comm::Communicator*> groups)
    : groups_(std::move(groups)), device_(groups_.at(0)->device()) {}

void CommFigures::begin_step(bool timed) {
  for (comm::Communicator* group : groups_) {
    group->meter().take();
    group->meter().time_streams(timed);
  }
  begun_ = timed || device_.is_cpu() ? Moment::now(device_) : Moment();
}

void CommFigures::end_step(double data_wait_s) {
  const Moment ended = begun_ ? Moment::now(device_) : Moment();
  last_ = {};
  for (comm::Communicator* group : groups_) {
    last_.add(group->meter().take());
    group->meter().time_streams(false);
  }
  if (ended) running_.push_back({last_, begun_, ended, data_wait_s});
  last_.open.clear();
  while (!running_.empty() && running_.front().settle()) {
    times_ = std::move(running_.front());
    running_.pop_front();
    own_.add(times_.own());
  }
}

bool CommFigures::TimedStep::settle() {
  const auto lasted = begun.until(ended);
  if (!lasted || !figures.settle()) return false;
  seconds = *lasted;
  return true;
}

OwnTime CommFigures::TimedStep::own() const {
  const double comm_s = figures.starting_s();
  const double rest_s = std::max(seconds - figures.waited_s() - comm_s, 0.0);
  const double data_s = std::min(data_wait_s, rest_s);
  return {rest_s - data_s, data_s, comm_s};
}

training::Metrics CommFigures::numbers() const {
  training::Metrics found;
  for (std::size_t k = 0; k < comm::kNumCollectiveKinds; ++k) {
    const auto kind = static_cast<comm::CollectiveKind>(k);
    found.emplace_back(fmt::format("comm/{}_mb", name_of(kind)),
                       static_cast<double>(last_.of(kind).bytes) / 1e6);
    found.emplace_back(fmt::format("comm/{}_ms", name_of(kind)),
                       times_.figures.of(kind).duration_s * 1e3);
  }
  const double waited_s = times_.figures.waited_s();
  found.emplace_back("comm/wait_ms", waited_s * 1e3);
  found.emplace_back("comm/wait_share", times_.seconds > 0 ? waited_s / times_.seconds : 0);
  return found;
}

}  // namespace wmtp::run
