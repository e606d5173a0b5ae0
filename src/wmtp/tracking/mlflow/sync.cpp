#include "wmtp/tracking/mlflow/sync.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "wmtp/tracking/mlflow/finished_run.h"
#include "wmtp/tracking/mlflow/remote.h"
#include "wmtp/tracking/mlflow/sender.h"
#include "wmtp/tracking/mlflow/spool/spool_lock.h"

namespace wmtp::tracking::mlflow {
namespace {

// What a spool holds besides what is to be sent.
struct FoundInSpool {
  HeldSteps held;
  std::int64_t last_ms = 0;  // the newest stamp of a record
};

// A run that did not say how it ended was killed, at about its last record.
SpooledEnd end_of(Spool& spool, std::int64_t last_ms) {
  return spool.with_files([&](SpoolFiles& files) {
    if (auto end = files.end()) return *end;
    const std::int64_t start_ms = files.run().value_or(SpooledRun{}).start_ms;
    const SpooledEnd end{RunStatus::killed, 0, "killed", std::max(last_ms, start_ms), false};
    files.save(end);
    return end;
  });
}

std::string uri_for(Spool& spool, const SyncOptions& options) {
  const std::string uri = chosen_uri(options.tracking_uri, options.env);
  if (!uri.empty()) return uri;
  return spool.with_files([](SpoolFiles& files) { return files.run(); })
      .value_or(SpooledRun{})
      .tracking_uri;
}

void send_all(Sender& sender, Clock::time_point deadline, SyncedRun& result) {
  for (;;) {
    const Sender::Step step = sender.step();
    if (sender.is_drained() && sender.is_end_sent()) return;
    result.problem = sender.problem();
    const bool is_hopeless = step.is_unreachable || step.outcome == Sender::Outcome::blocked;
    if (is_hopeless || Clock::now() + step.wait >= deadline) {
      if (result.problem.empty()) result.problem = "the time was not enough";
      return;
    }
    std::this_thread::sleep_for(step.wait);
  }
}

void sync_run(const std::filesystem::path& folder, const SyncOptions& options,
              Clock::time_point deadline, SyncedRun& result) {
  const std::optional<SpoolLock> lock = SpoolLock::take(folder);
  result.is_live = !lock;
  if (!lock) return;
  storage::LocalFileSystem files;
  FoundInSpool found;
  Spool spool(files, folder, [&](const Record& record) {
    if (record.kind != RecordKind::metrics) return;
    for (const Metric& metric : metrics_of(record)) found.held[metric.key].insert(metric.step);
    found.last_ms = std::max(found.last_ms, record.payload["time_ms"].get<std::int64_t>());
  });
  const std::string uri = uri_for(spool, options);
  const std::atomic<bool> never = false;
  SenderOptions sending;
  sending.says_running = false;
  sending.connect = [&] {
    if (options.connect) return options.connect(uri, never);
    if (uri.empty())
      throw Error(ErrorKind::config, "mlflow", "no tracking server is set",
                  "set MLFLOW_TRACKING_URI or mlflow.tracking_uri");
    return connect_server(uri, options.env, never);
  };
  Sender sender(spool, std::move(sending));
  sender.end(end_of(spool, found.last_ms));
  if (!sender.is_drained() || !sender.is_end_sent()) send_all(sender, deadline, result);
  if (sender.is_drained() && sender.is_end_sent()) {
    result.problem.clear();
    forget_finished_run(spool, found.held);
  }
  const SenderCounters& counters = sender.counters();
  result.sent = counters.sent;
  result.rejected = counters.rejected;
  const std::uint64_t last = spool.last_seq(), acked = counters.acked;
  result.left = (last > acked ? last - acked : 0) + counters.num_later;
  const auto run = spool.with_files([](SpoolFiles& small) { return small.run(); });
  if (run) result.run_id = run->run_id;
}

}  // namespace

std::vector<SyncedRun> sync(const SyncOptions& options) {
  const Clock::time_point deadline = Clock::now() + options.limit;
  std::vector<SyncedRun> results;
  for (const storage::FolderEntry& entry : storage::LocalFileSystem().list(options.spool_dir)) {
    if (entry.kind != storage::FileKind::folder) continue;
    SyncedRun result;
    result.run_uid = entry.name;
    try {
      sync_run(options.spool_dir / entry.name, options, deadline, result);
    } catch (const std::exception& error) {
      result.problem = error.what();
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace wmtp::tracking::mlflow
