// What a run noticed: in the log, as numbers where curves are drawn, and as an event for the
// report.
#include <fmt/format.h>

#include <algorithm>

#include "wmtp/core/log.h"
#include "wmtp/run/report/loss_watch.h"
#include "wmtp/run/report/run_report.h"

namespace wmtp::run {

void RunReport::event(tracking::RunEvent event) {
  log::warn("train", "step {}: {}", event.step, event.text);
  event.time_s = tracking::wall_time_s();
  sinks_.all.event(event);
}

void RunReport::speeds(std::int64_t step, const RankSpeeds& speeds) {
  constexpr std::size_t kMostNamed = 4;  // where one rank is fast, all others are slow
  tracking::NamedValues values{{"perf/slowest_rank_speed", speeds.slowest}};
  const auto& slow = speeds.stragglers;
  if (!slow.empty()) {
    values.emplace_back("perf/straggler_rank", slow[0].rank);
    values.emplace_back("perf/straggler_slowdown", slow[0].own_s / speeds.fastest_s);
  }
  write(step, std::move(values));
  for (std::size_t i = 0; i < std::min(slow.size(), kMostNamed); ++i) {
    const Straggler& one = slow[i];
    const double slowdown = one.own_s / speeds.fastest_s;
    std::string text = fmt::format(
        "rank {} on {} holds the others up: {:.1f} ms a step of its own, {:.2f} times those of "
        "rank "
        "{}, the fastest; it loses most in {}",
        one.rank, one.host, one.own_s * 1e3, slowdown, speeds.fastest_rank, one.cause);
    if (i + 1 == kMostNamed && slow.size() > kMostNamed)
      text += fmt::format(" (and {} more ranks are slow)", slow.size() - kMostNamed);
    event({.step = step,
           .kind = "straggler",
           .text = std::move(text),
           .facts = {{"rank", one.rank},
                     {"host", one.host},
                     {"slowdown", slowdown},
                     {"cause", one.cause},
                     {"own_ms", one.own_s * 1e3},
                     {"fastest_rank", speeds.fastest_rank},
                     {"fastest_ms", speeds.fastest_s * 1e3}}});
  }
}

void RunReport::spike(const FoundSpike& spike) {
  write(spike.step, {{"train/loss_spikes", static_cast<double>(spike.num_spikes)},
                     {"train/loss_spike_z", spike.z}});
  event(
      {.step = spike.step,
       .kind = "loss_spike",
       .text = fmt::format("the loss is {:.4g}, {:.1f} deviations above {:.4g}, the median of the "
                           "{} before",
                           spike.loss, spike.z, spike.median, spike.num_before),
       .facts = {{"loss", spike.loss},
                 {"median", spike.median},
                 {"z", spike.z},
                 {"losses", spike.num_before}}});
}

}  // namespace wmtp::run
