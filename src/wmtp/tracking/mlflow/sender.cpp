// The order that keeps a value from being sent twice with different stamps: records are on the disk
// before they are sent (a power loss must not make a sent one forgotten), and the run's id is on
// the disk before its first record is sent. `acked` follows the answer; lost, it repeats records as
// they were, which servers drop.
#include "wmtp/tracking/mlflow/sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "wmtp/core/log.h"
#include "wmtp/core/printable.h"
#include "wmtp/storage/open_file.h"
#include "wmtp/tracking/mlflow/rest/batch.h"
#include "wmtp/tracking/mlflow/rest/limits.h"

namespace wmtp::tracking::mlflow {
namespace {

constexpr std::chrono::milliseconds kBlockedWait{60'000};
constexpr std::chrono::milliseconds kLongestAsked{600'000};

http::Backoff new_backoff(std::uint64_t seed) {
  http::RetryPolicy policy;
  policy.base = std::chrono::milliseconds(500);
  policy.longest = std::chrono::milliseconds(30'000);
  policy.seed = seed;
  return http::Backoff(policy);
}

std::uint64_t backoff_seed(const void* object) {
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()) ^
         reinterpret_cast<std::uintptr_t>(object);
}

std::chrono::milliseconds wait_after(const Error& error, http::Backoff& backoff) {
  const auto own = backoff.next();
  const auto* const busy = dynamic_cast<const Unavailable*>(&error);
  if (!busy || !busy->retry_after()) return own;
  return std::clamp<std::chrono::milliseconds>(*busy->retry_after(), own, kLongestAsked);
}

bool fits_alone(const Item& item) {
  BatchRoom room;
  if (const auto* metric = std::get_if<Metric>(&item.value)) return room.add_metric(*metric);
  if (const auto* param = std::get_if<Param>(&item.value)) return room.add_param(param->pair);
  return room.add_tag(std::get<Tag>(item.value).pair);
}

// A full disk must not keep back what can be sent: the server knows the run by its tag, and drops
// what it gets twice.
template <class Save>
void save_if_possible(Spool& spool, Save save) {
  try {
    spool.with_files(save);
  } catch (const storage::FileError& error) {
    log::debug("mlflow", "{}", error.fact());
  }
}

}  // namespace

Sender::Sender(Spool& spool, SenderOptions options)
    : spool_(spool),
      options_(std::move(options)),
      backoff_(new_backoff(backoff_seed(this))),
      artifact_backoff_(new_backoff(backoff_seed(this) + 1)) {
  acked_ = spool_.with_files([](SpoolFiles& files) { return files.acked(); });
  counters_.acked = acked_.seq;
  counters_.num_later = acked_.later.size();
}

bool Sender::is_drained() const {
  return counters_.acked >= spool_.last_seq() && counters_.num_later == 0;
}

Sender::Step Sender::step() {
  problem_.clear();
  try {
    Step step = try_step();
    if (step.outcome == Outcome::sent) told_reachable();
    return step;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::comm) return outage(error);
    return blocked(error.what());
  } catch (const std::exception& error) {
    return blocked(error.what());
  }
}

Sender::Step Sender::try_step() {
  if (!remote_) remote_ = options_.connect();
  if (!run_) {
    find_run();
    told_reachable();
  }
  if (send_next()) return {Outcome::sent, {}, false, !outbox_->is_full()};
  if (send_artifact()) return {Outcome::sent, {}, false, false};
  if (!outbox_->artifacts().empty())
    return {Outcome::idle,
            std::chrono::ceil<std::chrono::milliseconds>(next_artifact_ - options_.now())};
  if (send_end()) return {Outcome::sent, {}, false, false};
  return {};
}

void Sender::find_run() {
  SpooledRun spooled =
      spool_.with_files([](SpoolFiles& files) { return files.run(); }).value_or(SpooledRun{});
  if (spooled.run_uid.empty())
    throw Error(
        ErrorKind::data, "mlflow",
        fmt::format("{} does not say which run it is of", (spool_.folder() / "run.json").string()),
        "start the run again, which writes it anew");
  const KeyValue tag{kUidTag, spooled.run_uid};
  bool is_new = false;
  Run run;
  if (!spooled.run_id.empty()) {
    run = remote_->get_run(spooled.run_id);
  } else {
    spooled.experiment_id = remote_->experiment(fit_name(spooled.experiment).text);
    if (auto found = remote_->find_run(spooled.experiment_id, tag)) {
      run = std::move(*found);
      // Sent from another machine, or by a start whose spool is gone.
      if (counters_.acked == 0) spooled.sent_up_to = run.last_steps;
    } else {
      run = remote_->create_run(
          {spooled.experiment_id, fit_name(spooled.run_name).text, spooled.start_ms, {tag}});
      is_new = true;
    }
    spooled.run_id = run.run_id;
    spooled.artifact_uri = run.artifact_uri;
    save_if_possible(spool_, [&](SpoolFiles& files) { files.save(spooled); });
  }
  if (run.is_deleted)
    throw Error(ErrorKind::config, "mlflow",
                fmt::format("the run {} was deleted on the server", run.run_id),
                fmt::format("restore it with `mlflow runs restore --run-id {}`", run.run_id));
  if (options_.says_running && !is_new)
    remote_->update_run(run.run_id, RunStatus::running, std::nullopt);
  known_ = {run.params, spooled.sent_up_to};
  run_ = std::move(run);
  outbox_.emplace(spool_.files(), spool_.folder(), acked_.seq, acked_.later);
}

bool Sender::send_next() {
  spool_.flush();  // a failure was warned of; what can be read can be sent
  const Outbox::Next& next = outbox_->next(known_);
  if (next.items.empty() && !next.inputs) {
    if (outbox_->up_to() != counters_.acked) acknowledge();
    return false;
  }
  if (next.inputs) {
    try {
      remote_->log_inputs(run_->run_id, next.inputs->payload);
    } catch (const Refused& refused) {
      if (!refused.is_about_content()) throw;
      set_aside({{"seq", next.inputs->seq}, {"inputs", next.inputs->payload}}, refused.fact());
    }
  } else {
    send_items(next.items);
    aside_.clear();
  }
  outbox_->done();
  acknowledge();
  return true;
}

// Halves what is refused until the bad ones are found.
void Sender::send_items(std::span<const Item> items) {
  std::string why = "too large for any batch";
  if (items.size() > 1 || fits_alone(items[0])) {
    try {
      const std::string first = to_json(items[0]).dump();
      if (items.size() == 1 && aside_.contains({items[0].seq, first})) return;
      remote_->log_batch(run_->run_id, batch_of(items));
      counters_.sent += items.size();
      return;
    } catch (const Refused& refused) {
      if (!refused.is_about_content()) throw;
      if (items.size() > 1) {
        send_items(items.first(items.size() / 2));
        return send_items(items.subspan(items.size() / 2));
      }
      why = refused.fact();
      // Refused whatever it is (the run was deleted): no reason to set anything aside.
      const auto uid = run_->tags.find(kUidTag);
      remote_->set_tag(run_->run_id, {kUidTag, uid == run_->tags.end() ? "" : uid->second});
    }
  }
  const OrderedJson what = to_json(items[0]);
  set_aside(what, why);
  aside_.emplace(items[0].seq, what.dump());
}

bool Sender::send_artifact() {
  auto& artifacts = outbox_->artifacts();
  if (artifacts.empty() || options_.now() < next_artifact_) return false;
  const Record& record = artifacts.front();
  const auto name = record.payload["name"].get<std::string>();
  std::filesystem::path path = record.payload["path"].get<std::string>();
  const bool is_copy = record.payload["copied"].get<bool>();
  try {
    if (is_copy) {
      storage::check_relative_name(path.string(), "the spool");
      path = spool_.folder() / path;
    }
    std::error_code status;
    if (std::filesystem::is_regular_file(path, status))
      remote_->upload(*run_, name, path);
    else if (!is_copy)  // a copy is removed once it is sent
      set_aside({{"seq", record.seq}, {"artifact", record.payload}},
                fmt::format("{} is gone", path.string()));
  } catch (const Error& error) {
    const auto* const refused = dynamic_cast<const Refused*>(&error);
    if (refused && (refused->status() == 401 || refused->status() == 403)) throw;
    if (error.kind() == ErrorKind::comm) {
      next_artifact_ = options_.now() + wait_after(error, artifact_backoff_);
      problem_ = error.what();
      return false;
    }
    set_aside({{"seq", record.seq}, {"artifact", record.payload}}, error.fact());
  }
  artifact_backoff_ = new_backoff(backoff_seed(&artifact_backoff_));
  next_artifact_ = {};
  artifacts.pop_front();
  acknowledge();
  std::error_code ignored;
  if (is_copy) std::filesystem::remove(path, ignored);
  return true;
}

bool Sender::send_end() {
  if (!end_ || end_->is_sent) return false;
  Batch batch;
  batch.tags = {{"wmtp.exit_code", fmt::format("{}", end_->exit_code)},
                {"wmtp.exit_reason", fit_tag(end_->reason).text}};
  remote_->log_batch(run_->run_id, batch);
  remote_->update_run(run_->run_id, end_->status, end_->end_ms);
  end_->is_sent = true;
  save_if_possible(spool_, [&](SpoolFiles& files) { files.save(*end_); });
  return true;
}

void Sender::set_aside(OrderedJson what, std::string_view why) {
  if (counters_.rejected++ == 0)
    log::warn("mlflow",
              "the server refuses a record: {}; it and others like it are set aside in {}",
              printable(why), (spool_.folder() / "rejected.jsonl").string());
  what["message"] = why;
  save_if_possible(spool_, [&](SpoolFiles& files) { files.reject(what); });
}

void Sender::acknowledge() {
  acked_ = {outbox_->up_to(), {}};
  for (const Record& record : outbox_->artifacts())
    if (record.seq <= acked_.seq) acked_.later.push_back(record.seq);
  counters_.acked = acked_.seq;
  counters_.num_later = acked_.later.size();
  save_if_possible(spool_, [&](SpoolFiles& files) { files.save(acked_); });
}

Sender::Step Sender::outage(const Error& error) {
  const auto* const failure = dynamic_cast<const http::Failure*>(&error);
  problem_ = error.what();
  if (!outage_since_) {
    outage_since_ = options_.now();
    ++counters_.outages;
    log::warn("mlflow", "{}; training goes on, and what it tells waits in {}",
              printable(error.what()), spool_.folder().string());
  }
  return {Outcome::outage, wait_after(error, backoff_),
          failure && failure->failure() == http::FailureKind::connect, false};
}

Sender::Step Sender::blocked(std::string_view text) {
  problem_ = text;
  if (std::exchange(told_problem_, problem_) != problem_)
    log::warn("mlflow", "{}; what training tells waits in {}", printable(text),
              spool_.folder().string());
  remote_.reset();  // certificates and credentials are read again
  run_.reset();
  return {Outcome::blocked, kBlockedWait, false, false};
}

void Sender::told_reachable() {
  backoff_ = new_backoff(backoff_seed(this));
  told_problem_.clear();
  if (!outage_since_) return;
  const double seconds = std::chrono::duration<double>(options_.now() - *outage_since_).count();
  outage_since_.reset();
  const std::uint64_t last = spool_.last_seq(), acked = counters_.acked;
  log::info("mlflow", "the server is back after {}; {} records wait to be sent",
            format_duration(seconds), last > acked ? last - acked : 0);
}

}  // namespace wmtp::tracking::mlflow
