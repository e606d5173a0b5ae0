// A stand-in for a trainer that tells MLflow of itself, to be killed at any moment. No LibTorch.
//   mlflow_storm train DIR STEPS KEYS STEP_US SAVE_EVERY END_MS   goes on from DIR/committed
//   mlflow_storm sync DIR                                         what `wmtp report` sends later
//   mlflow_storm rate BATCHES                                     what the server takes by itself
// The server is that of MLFLOW_TRACKING_URI. The value of key k at step s is s + k / 1000, whenever
// it is computed; time stamps differ. The last line of stdout is a JSON object.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <thread>

#include "wmtp/core/log.h"
#include "wmtp/core/time.h"
#include "wmtp/storage/atomic_file.h"
#include "wmtp/tracking/mlflow/mlflow_sink.h"
#include "wmtp/tracking/mlflow/sync.h"
#include "wmtp/tracking/sink_queue.h"

namespace wmtp::tracking::mlflow {
namespace {

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

struct Storm {
  std::filesystem::path dir;
  std::int64_t num_steps = 0, num_keys = 0, step_us = 0, save_every = 1, end_ms = 0;
};

std::int64_t committed_step(const std::filesystem::path& dir) {
  std::int64_t step = 0;
  std::ifstream(dir / "committed") >> step;
  return step;
}

MlflowOptions sink_options(const Storm& storm, std::int64_t from_step) {
  MlflowOptions options;
  options.experiment = "storm";
  options.run_name = "storm";
  options.spool_dir = storm.dir / "spool";
  options.run_uid = "5709";
  options.from_step = from_step;
  options.params = {{"training.max_steps", std::to_string(storm.num_steps)}};
  options.tags = {{"stage", "baseline"}};
  options.sync_command = "mlflow_storm sync";
  options.env = environment;
  return options;
}

double percentile(std::vector<std::int64_t>& ns, double part) {
  if (ns.empty()) return 0;
  const auto at =
      ns.begin() + static_cast<std::ptrdiff_t>(part * (static_cast<double>(ns.size()) - 1));
  std::nth_element(ns.begin(), at, ns.end());
  return static_cast<double>(*at) / 1e3;
}

Json train(const Storm& storm) {
  const std::int64_t from_step = committed_step(storm.dir);
  const auto begun = Clock::now();
  const auto sink = std::make_shared<MlflowSink>(sink_options(storm, from_step));
  const double open_s = seconds_since(begun);
  std::vector<std::int64_t> call_ns;
  std::uint64_t num_dropped = 0;
  {
    SinkQueue queue(sink, 1 << 16);
    auto next = Clock::now();
    for (std::int64_t step = from_step + 1; step <= storm.num_steps; ++step) {
      Point point{step, wall_time_s(), {}};
      for (std::int64_t key = 0; key < storm.num_keys; ++key)
        point.values.emplace_back("train/metric_" + std::to_string(key),
                                  static_cast<double>(step) + 1e-3 * static_cast<double>(key));
      const auto called = Clock::now();
      queue.take(std::move(point));
      call_ns.push_back((Clock::now() - called).count());
      if (step % storm.save_every == 0) {
        queue.flush();
        storage::write_file_atomically(storm.dir / "committed", std::to_string(step));
      }
      next += std::chrono::microseconds(storm.step_us);
      std::this_thread::sleep_until(next);
    }
    num_dropped = queue.num_dropped();
  }
  const auto ending = Clock::now();
  sink->end({RunStatus::finished, 0, "completed"}, std::chrono::milliseconds(storm.end_ms));
  const MlflowCounters counters = sink->counters();
  return {{"p50_us", percentile(call_ns, 0.5)},
          {"p99_us", percentile(call_ns, 0.99)},
          {"max_us", percentile(call_ns, 1)},
          {"dropped", counters.dropped + num_dropped},
          {"appended", counters.appended},
          {"sent", counters.sent},
          {"repeated", counters.repeated},
          {"rejected", counters.rejected},
          {"left", counters.left},
          {"outages", counters.outages},
          {"open_s", open_s},
          {"end_s", seconds_since(ending)},
          {"run_id", sink->run_id()}};
}

Json sync_spool(const std::filesystem::path& dir) {
  const auto begun = Clock::now();
  SyncOptions options;
  options.spool_dir = dir / "spool";
  options.env = environment;
  Json runs = Json::array();
  for (const SyncedRun& run : sync(options))
    runs.push_back({{"uid", run.run_uid},
                    {"run_id", run.run_id},
                    {"live", run.is_live},
                    {"sent", run.sent},
                    {"rejected", run.rejected},
                    {"left", run.left},
                    {"problem", run.problem}});
  return {{"runs", runs}, {"seconds", seconds_since(begun)}};
}

// Batches as the sender makes them, from memory.
Json measure_rate(int num_batches) {
  http::ClientOptions options;
  options.env = environment;
  Server server(environment("MLFLOW_TRACKING_URI").value_or(""), options);
  const Run run = server.create_run({server.experiment("storm"), "rate", 1, {}});
  const auto begun = Clock::now();
  for (int number = 0; number < num_batches; ++number) {
    Batch batch;
    for (int i = 0; i < 1000; ++i)
      batch.metrics.push_back({"train/metric_" + std::to_string(i % 20), 0.1 * i,
                               1'700'000'000'000 + number, number * 50 + i / 20});
    server.log_batch(run.run_id, batch);
  }
  return {{"per_s", 1000 * num_batches / seconds_since(begun)}};
}

Json run_command(const std::vector<std::string>& args) {
  if (args.at(0) == "rate") return measure_rate(std::stoi(args.at(1)));
  if (args.at(0) == "sync") return sync_spool(args.at(1));
  return train({args.at(1), std::stoll(args.at(2)), std::stoll(args.at(3)), std::stoll(args.at(4)),
                std::stoll(args.at(5)), std::stoll(args.at(6))});
}

}  // namespace
}  // namespace wmtp::tracking::mlflow

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    std::cout << wmtp::tracking::mlflow::run_command({argv + 1, argv + argc}) << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
