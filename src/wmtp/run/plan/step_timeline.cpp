#include "wmtp/run/plan/step_timeline.h"

#include <algorithm>
#include <limits>

#include "wmtp/core/error.h"

namespace wmtp::run {
namespace {

// Two events that differ by rounding alone are one.
constexpr double kSameTime = 1e-12;

// Of a core, where one thread computes and others send: the scheduler is fair.
constexpr double kMostForBytes = 0.5;

}  // namespace

std::size_t StepTimeline::add_channel(std::size_t link, int lanes) {
  WMTP_CHECK(link < links_.size() && lanes > 0, "a channel needs a link and a lane");
  channels_.push_back({link, lanes});
  return channels_.size() - 1;
}

double StepTimeline::fixed_s(std::size_t channel, const Transfer& transfer) const {
  const LinkModel& link = links_[channels_[channel].link];
  return link.start_s + transfer.hops * link.latency_s;
}

double StepTimeline::alone(std::size_t channel, const Transfer& transfer) const {
  return fixed_s(channel, transfer) + transfer.bytes / links_[channels_[channel].link].bytes_per_s;
}

StepTimeline::Ticket StepTimeline::start(std::size_t channel, const Transfer& transfer) {
  flows_.push_back({channel, fixed_s(channel, transfer), transfer.bytes});
  return flows_.size() - 1;
}

std::vector<StepTimeline::Flow*> StepTimeline::running() {
  while (first_open_ < flows_.size() && flows_[first_open_].ended) ++first_open_;
  std::vector<int> lanes_left;
  for (const Channel& channel : channels_) lanes_left.push_back(channel.lanes);
  std::vector<Flow*> result;
  for (std::size_t i = first_open_; i < flows_.size(); ++i)
    if (!flows_[i].ended && lanes_left[flows_[i].channel]-- > 0) result.push_back(&flows_[i]);
  return result;
}

std::vector<double> StepTimeline::sharers_of(const std::vector<Flow*>& flows) const {
  std::vector<double> sharers(links_.size(), 0);
  for (const Flow* flow : flows)
    if (flow->fixed_s <= 0) ++sharers[channels_[flow->channel].link];
  return sharers;
}

double StepTimeline::next_event(double byte_speed) {
  double soonest = std::numeric_limits<double>::infinity();
  const auto flows = running();
  const auto sharers = sharers_of(flows);
  for (const Flow* flow : flows) {
    const std::size_t link = channels_[flow->channel].link;
    soonest = std::min(soonest, flow->fixed_s > 0 ? flow->fixed_s
                                                  : flow->bytes * sharers[link] /
                                                        (links_[link].bytes_per_s * byte_speed));
  }
  return soonest;
}

void StepTimeline::advance(double seconds, double byte_speed) {
  const auto flows = running();
  const auto sharers = sharers_of(flows);
  for (Flow* flow : flows) {
    const std::size_t link = channels_[flow->channel].link;
    double& left = flow->fixed_s > 0 ? flow->fixed_s : flow->bytes;
    const double per_s =
        flow->fixed_s > 0 ? 1 : links_[link].bytes_per_s * byte_speed / sharers[link];
    left = left / per_s <= seconds * (1 + kSameTime) ? 0 : left - seconds * per_s;
    flow->ended = flow->fixed_s <= 0 && flow->bytes <= 0;
  }
  now_ += seconds;
}

StepTimeline::Speeds StepTimeline::speeds_beside_each_other() {
  const auto sharers = sharers_of(running());
  double wanted = 0;
  for (std::size_t i = 0; i < links_.size(); ++i)
    if (sharers[i] > 0) wanted += links_[i].bytes_per_s * links_[i].compute_s_per_byte;
  const double taken = std::min(wanted, kMostForBytes);
  return {1 - taken, wanted > 0 ? taken / wanted : 1};
}

double StepTimeline::compute(double seconds) {
  const double begin = now_;
  for (double left = seconds; left > 0;) {
    const Speeds speeds = speeds_beside_each_other();
    const double event = next_event(speeds.bytes);
    const bool ends = left / speeds.compute <= event;
    const double passed = ends ? left / speeds.compute : event;
    advance(passed, speeds.bytes);
    left = ends ? 0 : left - passed * speeds.compute;
  }
  return now_ - begin - seconds;
}

double StepTimeline::wait(Ticket ticket) {
  const double begin = now_;
  while (!flows_.at(ticket).ended) advance(next_event(1), 1);
  return now_ - begin;
}

}  // namespace wmtp::run
