#include "wmtp/tracking/mlflow/mlflow_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>
#include <utility>

#include "wmtp/core/log.h"
#include "wmtp/http/url.h"
#include "wmtp/tracking/append_file.h"
#include "wmtp/tracking/mlflow/finished_run.h"
#include "wmtp/tracking/mlflow/remote.h"
#include "wmtp/tracking/mlflow/rest/limits.h"
#include "wmtp/tracking/mlflow/sender_thread.h"
#include "wmtp/tracking/mlflow/spool/spool_lock.h"
#include "wmtp/tracking/mlflow/spool/step_set.h"

namespace wmtp::tracking::mlflow {
namespace {

constexpr std::size_t kMaxValues = 500;  // of one record
constexpr std::size_t kMaxPairs = 50;    // of long tags, each character six in JSON, 2.4 MB

std::int64_t to_ms(double seconds) {
  const double ms = std::round(seconds * 1e3);
  return ms > 0 && ms < 0x1p62 ? static_cast<std::int64_t>(ms) : 0;
}

void check_uid(std::string_view uid) {
  constexpr std::string_view kAllowed =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-";
  if (uid.empty() || uid.size() > 128 || uid.find_first_not_of(kAllowed) != uid.npos)
    throw Error(ErrorKind::config, "mlflow", "the run has no usable identity");
}

// What may be kept and shown of it; "" where it is no URL, which is said when it is used.
std::string uri_without_secrets(const std::string& uri) {
  try {
    return http::parse_url(uri, "mlflow.tracking_uri").text();
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

struct MlflowSink::State {
  explicit State(MlflowOptions given) : options(std::move(given)) {}

  void open();
  void begin_run(const std::string& uri);
  void append_pairs(RecordKind kind, const std::vector<KeyValue>& pairs);
  void append_point(const Point& point);
  const std::string& fitted_key(const std::string& name);

  MlflowOptions options;
  storage::LocalFileSystem files;
  std::optional<SpoolLock> lock;
  std::mutex mutex;  // of what follows, up to the spool
  HeldSteps held;
  std::set<std::string> held_texts;  // params and inputs
  std::map<std::string, std::string> fitted;
  std::atomic<std::uint64_t> appended = 0, repeated = 0, dropped = 0;
  std::atomic<bool> end_was_told = false;
  std::unique_ptr<Spool> spool;  // none: it cannot be used
  std::unique_ptr<SenderThread> sender;
};

MlflowSink::MlflowSink(MlflowOptions options) : state_(new State(std::move(options))) {
  try {
    state_->open();
  } catch (const std::exception& error) {
    state_->sender.reset();
    state_->spool.reset();
    log::warn("mlflow", "nothing is kept for MLflow: {}", error.what());
  }
}

MlflowSink::~MlflowSink() = default;

void MlflowSink::State::open() {
  check_uid(options.run_uid);
  const std::filesystem::path folder = options.spool_dir / options.run_uid;
  lock = SpoolLock::take(folder);
  if (!lock)
    throw Error(ErrorKind::config, "mlflow",
                fmt::format("another process writes or sends {}", folder.string()),
                "wait for it, or end it");
  spool = std::make_unique<Spool>(files, folder, [this](const Record& record) {
    if (record.kind == RecordKind::metrics)
      for (const Metric& metric : metrics_of(record)) held[metric.key].insert(metric.step);
    if (record.kind == RecordKind::params || record.kind == RecordKind::inputs)
      held_texts.insert(record.payload.dump());
  });
  if (spool->num_strange() > 0)
    log::warn("mlflow", "{} lines in {} are no records and are left out", spool->num_strange(),
              folder.string());
  const std::string uri = chosen_uri(options.tracking_uri, options.env);
  begin_run(uri);
  SenderThreadOptions sending;
  sending.finished = [this] {
    const std::scoped_lock holding(mutex);
    forget_finished_run(*spool, held);
  };
  if (options.connect)
    sending.connect = options.connect;
  else if (!uri.empty())
    sending.connect = [uri, env = options.env](const std::atomic<bool>& cancelled) {
      return connect_server(uri, env, cancelled);
    };
  else
    log::info("mlflow", "no tracking server is set: the run is kept in {}; {} sends it",
              folder.string(), options.sync_command);
  sender = std::make_unique<SenderThread>(*spool, std::move(sending));
}

void MlflowSink::State::begin_run(const std::string& uri) {
  spool->with_files([&](SpoolFiles& small) {
    SpooledRun run = small.run().value_or(SpooledRun{});
    const SpooledRun before = run;
    if (run.run_uid != options.run_uid)
      run = {options.run_uid,
             options.experiment,
             options.run_name,
             "",
             to_ms(wall_time_s()),
             {},
             {},
             {},
             {}};
    run.tracking_uri = uri_without_secrets(uri);
    if (run.run_uid != before.run_uid || run.tracking_uri != before.tracking_uri) small.save(run);
    small.remove_end();
  });
  append_pairs(RecordKind::params, options.params);
  append_pairs(RecordKind::tags, options.tags);
  if (options.from_step > 0)
    append_pairs(RecordKind::tags, {{"wmtp.resumed_from", fmt::format("{}", options.from_step)}});
  if (options.inputs.is_object() && held_texts.insert(options.inputs.dump()).second)
    spool->append(RecordKind::inputs, options.inputs);
  for (const Artifact& artifact : options.artifacts)
    spool->append_artifact(artifact.name, artifact.path);
}

void MlflowSink::State::append_pairs(RecordKind kind, const std::vector<KeyValue>& pairs) {
  OrderedJson payload = OrderedJson::object();
  const auto append = [&] {
    const bool is_new = kind == RecordKind::tags || held_texts.insert(payload.dump()).second;
    if (is_new && !payload.empty()) spool->append(kind, payload);
    payload = OrderedJson::object();
  };
  for (const auto& [key, value] : pairs) {
    payload[fit_key(key).text] =
        (kind == RecordKind::tags ? fit_tag(value) : fit_param(value)).text;
    if (payload.size() == kMaxPairs) append();
  }
  append();
}

const std::string& MlflowSink::State::fitted_key(const std::string& name) {
  const auto at = fitted.find(name);
  return at != fitted.end() ? at->second : fitted.emplace(name, fit_key(name).text).first->second;
}

void MlflowSink::State::append_point(const Point& point) {
  OrderedJson values = OrderedJson::object();
  const auto append = [&] {
    if (values.empty()) return;
    const std::uint64_t count = values.size();
    const bool is_kept = spool->append(
        RecordKind::metrics,
        {{"step", point.step}, {"time_ms", to_ms(point.time_s)}, {"values", std::move(values)}});
    (is_kept ? appended : dropped) += count;
    values = OrderedJson::object();
  };
  for (const auto& [name, value] : point.values) {
    const std::string& key = fitted_key(name);
    if (!held[key].insert(point.step)) {
      ++repeated;
      continue;
    }
    values[key] = json_number(value);
    if (values.size() == kMaxValues) append();
  }
  append();
}

void MlflowSink::point(const Point& point) {
  if (!state_->spool) {
    state_->dropped += point.values.size();
    return;
  }
  const std::scoped_lock lock(state_->mutex);
  state_->append_point(point);
}

void MlflowSink::flush() {
  if (state_->spool) state_->spool->flush();
}

void MlflowSink::artifact(std::string_view name, const std::filesystem::path& path) {
  if (state_->spool) state_->spool->append_artifact(name, path);
}

void MlflowSink::end(const RunEnd& end, std::chrono::milliseconds limit) {
  if (!state_->sender) return;
  const SpooledEnd spooled{end.status, end.exit_code, end.reason, to_ms(wall_time_s()), false};
  const bool has_all = state_->sender->end(spooled, limit);
  if (has_all || state_->end_was_told.exchange(true)) return;
  const MlflowCounters now = counters();
  const std::string problem = state_->sender->problem();
  log::warn("mlflow", "{} records and the end of the run are not sent yet{}{}; {} sends them",
            now.left, problem.empty() ? "" : ": ", problem, state_->options.sync_command);
}

MlflowCounters MlflowSink::counters() const {
  MlflowCounters now{state_->appended, 0, state_->repeated, state_->dropped, 0, 0, 0};
  if (!state_->sender) return now;
  const SenderCounters& sender = state_->sender->counters();
  now.sent = sender.sent;
  now.rejected = sender.rejected;
  now.outages = sender.outages;
  const std::uint64_t last = state_->spool->last_seq(), acked = sender.acked;
  now.left = (last > acked ? last - acked : 0) + sender.num_later;
  return now;
}

std::string MlflowSink::run_id() const {
  if (!state_->spool) return "";
  const auto run = state_->spool->with_files([](SpoolFiles& files) { return files.run(); });
  return run ? run->run_id : "";
}

}  // namespace wmtp::tracking::mlflow
