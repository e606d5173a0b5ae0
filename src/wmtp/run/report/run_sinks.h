// Where a run's report goes, as its configuration says: the console at once, the rest through a
// queue. Rank 0 only.
#pragma once
#include <memory>

#include "wmtp/config/config.h"
#include "wmtp/run/report/tracked_facts.h"
#include "wmtp/tracking/console.h"
#include "wmtp/tracking/sink.h"
#include "wmtp/tracking/sink_queue.h"

namespace wmtp::run {

struct RunSinks {
  tracking::FanOut all;
  std::shared_ptr<tracking::SinkQueue> kept;  // among `all`: what a kill must not take away
};

// Opens files; Error io where one cannot be written. REQUIRES the run's folder.
// `facts`: what the run is (tracked_facts.h), for TensorBoard.
RunSinks open_sinks(const config::Config& config, const tracking::ConsoleOptions& console,
                    const NamedTexts& facts);

}  // namespace wmtp::run
