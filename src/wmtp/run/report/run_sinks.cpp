#include "wmtp/run/report/run_sinks.h"

#include <iostream>

#include "wmtp/tracking/jsonl_sink.h"
#include "wmtp/tracking/run_files.h"
#include "wmtp/tracking/tensorboard/sink.h"

namespace wmtp::run {

RunSinks open_sinks(const config::Config& config, const tracking::ConsoleOptions& console,
                    const NamedTexts& facts) {
  auto files = std::make_shared<tracking::FanOut>();
  files->add(std::make_shared<tracking::RunFiles>(config.runtime.run_dir));
  if (config.tracking.jsonl)
    files->add(std::make_shared<tracking::JsonlSink>(config.tracking.jsonl_path));
  if (config.tracking.tensorboard) {
    auto tensorboard = std::make_shared<tracking::TensorboardSink>(config.tracking.tensorboard_dir,
                                                                   tracking::wall_time_s());
    tensorboard->configuration(facts);
    files->add(std::move(tensorboard));
  }
  RunSinks sinks;
  sinks.kept = std::make_shared<tracking::SinkQueue>(
      std::move(files), static_cast<std::size_t>(config.tracking.queue_points));
  sinks.all.add(std::make_shared<tracking::Console>(std::cout, console));
  sinks.all.add(sinks.kept);
  return sinks;
}

}  // namespace wmtp::run
