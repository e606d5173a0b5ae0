#include "wmtp/tracking/mlflow/rest/server.h"

#include <fmt/format.h>

#include "wmtp/tracking/escaped_text.h"
#include "wmtp/tracking/mlflow/rest/answers.h"
#include "wmtp/tracking/mlflow/rest/artifacts.h"
#include "wmtp/tracking/mlflow/rest/batch.h"
#include "wmtp/tracking/mlflow/rest/connection.h"

namespace wmtp::tracking::mlflow {
namespace {

const char* status_name(RunStatus status) {
  switch (status) {
    case RunStatus::running:
      return "RUNNING";
    case RunStatus::finished:
      return "FINISHED";
    case RunStatus::failed:
      return "FAILED";
    case RunStatus::killed:
      return "KILLED";
  }
  return "FAILED";
}

// In quotation marks of a search's filter, which knows no escapes.
void check_quotable(std::string_view text) {
  WMTP_CHECK(text.find_first_of("'\"`\\") == text.npos, "a tag that cannot be searched for");
}

bool fits(const Batch& batch) {
  BatchRoom room;
  for (const Metric& metric : batch.metrics)
    if (!room.add_metric(metric)) return false;
  for (const KeyValue& param : batch.params)
    if (!room.add_param(param)) return false;
  for (const KeyValue& tag : batch.tags)
    if (!room.add_tag(tag)) return false;
  return true;
}

}  // namespace

struct Server::State {
  Connection connection;

  // The text of a call for errors about its answer.
  std::string named(std::string_view method, std::string_view call) const {
    return http::shown(connection.request(method, fmt::format("/api/2.0/{}", call)));
  }
  std::optional<Experiment> find_experiment(std::string_view name);
  // Nothing: someone else was faster.
  std::optional<std::string> create_experiment(std::string_view name);
};

Server::Server(std::string_view uri, http::ClientOptions options,
               const std::atomic<bool>* cancelled)
    : state_(new State{Connection(uri, std::move(options), cancelled)}) {}
Server::~Server() = default;

std::optional<Experiment> Server::State::find_experiment(std::string_view name) {
  constexpr std::string_view kCall = "mlflow/experiments/get-by-name";
  try {
    return experiment_of(connection.get(kCall, {{"experiment_name", std::string(name)}}),
                         named("GET", kCall));
  } catch (const Refused& refused) {
    if (refused.code() == "RESOURCE_DOES_NOT_EXIST") return std::nullopt;
    throw;
  }
}

std::optional<std::string> Server::State::create_experiment(std::string_view name) {
  constexpr std::string_view kCall = "mlflow/experiments/create";
  try {
    return created_experiment_of(connection.post(kCall, {{"name", name}}), named("POST", kCall));
  } catch (const Refused& refused) {
    if (refused.code() == "RESOURCE_ALREADY_EXISTS") return std::nullopt;
    throw;
  }
}

std::string Server::experiment(std::string_view name) {
  std::optional<Experiment> found = state_->find_experiment(name);
  if (!found) {
    if (auto id = state_->create_experiment(name)) return *id;
    found = state_->find_experiment(name);
  }
  if (!found)
    throw Error(ErrorKind::data, "mlflow",
                fmt::format("{}: the experiment \"{}\" is neither there nor can it be made",
                            state_->connection.address().shown(), visible(name)));
  if (found->is_deleted)
    throw Refused(404, "RESOURCE_DOES_NOT_EXIST",
                  fmt::format("{}: the experiment \"{}\" (id {}) was deleted there",
                              state_->connection.address().shown(), visible(name), found->id),
                  fmt::format("restore it with `mlflow experiments restore -x {}`, or set "
                              "mlflow.experiment to another name",
                              found->id));
  return found->id;
}

Run Server::create_run(const NewRun& run) {
  constexpr std::string_view kCall = "mlflow/runs/create";
  OrderedJson body = {{"experiment_id", run.experiment_id},
                      {"run_name", run.name},
                      {"start_time", run.start_ms},
                      {"tags", OrderedJson::array()}};
  for (const KeyValue& tag : run.tags) body["tags"].push_back(tag_json(tag));
  return run_of(state_->connection.post(kCall, body), state_->named("POST", kCall));
}

Run Server::get_run(std::string_view run_id) {
  constexpr std::string_view kCall = "mlflow/runs/get";
  return run_of(state_->connection.get(kCall, {{"run_id", std::string(run_id)}}),
                state_->named("GET", kCall));
}

std::optional<Run> Server::find_run(std::string_view experiment_id, const KeyValue& tag) {
  constexpr std::string_view kCall = "mlflow/runs/search";
  check_quotable(tag.first);
  check_quotable(tag.second);
  const Json answer = state_->connection.post(
      kCall, {{"experiment_ids", OrderedJson::array({experiment_id})},
              {"filter", fmt::format("tags.`{}` = '{}'", tag.first, tag.second)},
              {"max_results", 1}});
  std::optional<Run> run = found_run_of(answer, state_->named("POST", kCall));
  if (!run) return std::nullopt;
  const auto found = run->tags.find(tag.first);
  if (found == run->tags.end() || found->second != tag.second)
    throw Error(
        ErrorKind::data, "mlflow",
        fmt::format("{}: a run was found that lacks the tag", state_->named("POST", kCall)));
  return run;
}

void Server::log_batch(std::string_view run_id, const Batch& batch) {
  WMTP_CHECK(fits(batch), "a batch beyond its limits");
  state_->connection.post("mlflow/runs/log-batch", batch_json(run_id, batch));
}

void Server::log_inputs(std::string_view run_id, const OrderedJson& inputs) {
  OrderedJson body = {{"run_id", run_id}};
  body.update(inputs);
  state_->connection.post("mlflow/runs/log-inputs", body);
}

void Server::set_tag(std::string_view run_id, const KeyValue& tag) {
  state_->connection.post("mlflow/runs/set-tag",
                          {{"run_id", run_id}, {"key", tag.first}, {"value", tag.second}});
}

void Server::update_run(std::string_view run_id, RunStatus status,
                        std::optional<std::int64_t> end_ms) {
  OrderedJson body = {{"run_id", run_id}, {"status", status_name(status)}};
  if (end_ms) body["end_time"] = *end_ms;
  state_->connection.post("mlflow/runs/update", body);
}

void Server::upload(const Run& run, std::string_view name, const std::filesystem::path& file) {
  upload_artifact(state_->connection, run.artifact_uri, name, file);
}

}  // namespace wmtp::tracking::mlflow
